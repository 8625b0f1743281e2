// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
	"millwright.dev/pkg/generated/clientset/versioned"
	listers "millwright.dev/pkg/generated/listers/metacontroller/v1alpha1"
)

// finalizer of CompositeControllers, which most tests are about.
const finalizer = "millwright.dev/compositecontroller"

// declared is the Declaration of a CompositeController.
var declared = parent.FromComposite

// compositesIn returns the CompositeControllers of a cache as the engine uses them.
func compositesIn(indexer cache.Indexer, client versioned.Interface) Declarations {
	return NewDeclarations(Source[*v1alpha1.CompositeController]{
		Kind:     parent.Composite,
		Resource: v1alpha1.Resource("compositecontrollers"),
		Lister:   listers.NewCompositeControllerLister(indexer),
		Client:   client.MetacontrollerV1alpha1().CompositeControllers(),
		From:     parent.FromComposite,
		Copy:     (*v1alpha1.CompositeController).DeepCopy,
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The resources of these tests.
var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	things     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
)

type edit = func(*v1alpha1.CompositeControllerSpec)

// controllerWith returns a CompositeController of Things with ConfigMaps, after some edits.
func controllerWith(edits ...edit) *v1alpha1.CompositeController {
	cc := &v1alpha1.CompositeController{ObjectMeta: metav1.ObjectMeta{Name: "cc", UID: "cc", Generation: 7}}
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

func webhookAt(url string) *v1alpha1.Hook {
	return &v1alpha1.Hook{Webhook: &v1alpha1.Webhook{URL: &url}}
}

func withFinalize(spec *v1alpha1.CompositeControllerSpec) {
	spec.Hooks.Finalize = webhookAt("http://hook/finalize")
}

func withLabelSelector(spec *v1alpha1.CompositeControllerSpec) {
	spec.ParentResource.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"on": "yes"}}
}
