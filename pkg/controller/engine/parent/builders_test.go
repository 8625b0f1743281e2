// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/hook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// text is an object that has only its JSON.
type text string

func (o text) meta() metav1.ObjectMeta {
	meta, err := metadataOf(o)
	if err != nil {
		panic(err)
	}
	return meta
}

func (o text) JSON() string               { return string(o) }
func (o text) Decode(into any) error      { return json.Unmarshal([]byte(o), into) }
func (o text) GetNamespace() string       { return o.meta().Namespace }
func (o text) GetName() string            { return o.meta().Name }
func (o text) GetUID() types.UID          { return o.meta().UID }
func (o text) GetResourceVersion() string { return o.meta().ResourceVersion }
func (o text) GetGeneration() int64       { return o.meta().Generation }
func (o text) GetFinalizers() []string    { return o.meta().Finalizers }
func (o text) Deleting() bool             { return o.meta().DeletionTimestamp != nil }
func (o text) Labels() labels.Labels      { return labels.Set(o.meta().Labels) }
func (o text) ControllerUID() types.UID {
	for _, owner := range o.meta().OwnerReferences {
		if owner.Controller != nil && *owner.Controller {
			return owner.UID
		}
	}
	return ""
}

// textOf returns a tree as an object.
func textOf(t *testing.T, tree any) text {
	t.Helper()
	content, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return text(content)
}

const deleting = `"deletionTimestamp":"2026-01-01T00:00:00Z"`

// parentWith is the parent of most tests, with more in its metadata.
func parentWith(metadata string) text {
	if metadata != "" {
		metadata = "," + metadata
	}
	return text(fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"thing","uid":"parent","resourceVersion":"1","generation":3%s},"spec":{"selector":{"matchLabels":{"app":"a"}}}}`, metadata))
}

func ptr[T any](value T) *T { return &value }

// configMaps and things are what the API server of these tests serves.
var (
	configMaps  = Resource{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", true, false}
	things      = Resource{schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}, "Thing", true, true}
	plain       = Resource{schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "plains"}, "Plain", true, false}
	deployments = Resource{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment", true, true}
	namespaces  = Resource{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "Namespace", false, true}
)

func served() map[schema.GroupVersionResource]Resource {
	found := map[schema.GroupVersionResource]Resource{}
	for _, r := range []Resource{configMaps, things, plain, namespaces, deployments} {
		found[r.GroupVersionResource] = r
	}
	return found
}

func webhookAt(url string) *v1alpha1.Hook {
	return &v1alpha1.Hook{Webhook: &v1alpha1.Webhook{URL: &url}}
}

// controllerWith is a CompositeController of Things with ConfigMaps, after some edits.
func controllerWith(edits ...func(*v1alpha1.CompositeControllerSpec)) *v1alpha1.CompositeController {
	cc := &v1alpha1.CompositeController{ObjectMeta: metav1.ObjectMeta{Name: "cc", Generation: 7}}
	cc.Spec.ParentResource.ResourceRule = v1alpha1.ResourceRule{APIVersion: "example.com/v1", Resource: "things"}
	cc.Spec.Hooks = &v1alpha1.CompositeControllerHooks{Sync: webhookAt("http://hook/sync")}
	cc.Spec.ChildResources = []v1alpha1.CompositeControllerChildResourceRule{{
		ResourceRule:   v1alpha1.ResourceRule{APIVersion: "v1", Resource: "configmaps"},
		UpdateStrategy: &v1alpha1.CompositeControllerChildUpdateStrategy{Method: v1alpha1.ChildUpdateInPlace},
	}}
	for _, edit := range edits {
		edit(&cc.Spec)
	}
	return cc
}

func specWith(t *testing.T, edits ...func(*v1alpha1.CompositeControllerSpec)) *Spec {
	t.Helper()
	r, wrong := Compile(FromComposite(controllerWith(edits...)), served())
	if wrong != nil {
		t.Fatal(*wrong)
	}
	return r
}

func withFinalize(spec *v1alpha1.CompositeControllerSpec) {
	spec.Hooks.Finalize = webhookAt("http://hook/finalize")
}

func withLabelSelector(spec *v1alpha1.CompositeControllerSpec) {
	spec.ParentResource.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"on": "yes"}}
}

func withMethod(method v1alpha1.ChildUpdateMethod) func(*v1alpha1.CompositeControllerSpec) {
	return func(spec *v1alpha1.CompositeControllerSpec) { spec.ChildResources[0].UpdateStrategy.Method = method }
}

// answerOf is the answer of a hook, as it is decoded for the parent.
func answerOf(t *testing.T, r *Spec, parent object, body string) *answer {
	t.Helper()
	answer, err := r.decode([]byte(body), hook.Rules{Phase: "sync", Version: hook.V1}, parent)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
