// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// Ingresses have a status subresource and a generation, and no controller that writes to them.
var Ingresses = Resource{GroupVersionResource: networkingv1.SchemeGroupVersion.WithResource("ingresses"), Object: &networkingv1.Ingress{}, Status: true,
	Generation: true, TypeConverter: builtin}

// TestConformance checks what controllers rely on, on this server or on a real one: of ConfigMaps and Ingresses in a namespace that has
// none of them.
func TestConformance(t *testing.T, config *rest.Config, namespace string) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(c *conformance){
		"optimistic lock":  (*conformance).testOptimisticLock,
		"UID precondition": (*conformance).testUIDs,
		"generation":       (*conformance).testGeneration,
		"status":           (*conformance).testStatus,
		"finalizers":       (*conformance).testFinalizers,
		"apply":            (*conformance).testApply,
		"patches":          (*conformance).testPatches,
		"names":            (*conformance).testNames,
		"watch":            (*conformance).testWatch,
	} {
		t.Run(name, func(t *testing.T) { test(&conformance{t, client, namespace}) })
	}
}

type conformance struct {
	*testing.T
	kubernetes.Interface
	namespace string
}

func (c *conformance) wantReason(what string, err error, want metav1.StatusReason) {
	c.Helper()
	if got := apierrors.ReasonForError(err); got != want || (err == nil) != (want == "") {
		c.Errorf("%s: %v, of reason %q, want %q", what, err, got, want)
	}
}

func must[T any](c *conformance) func(T, error) T {
	return func(value T, err error) T {
		c.Helper()
		if err != nil {
			c.Fatal(err)
		}
		return value
	}
}

func (c *conformance) configMap(name string) *corev1.ConfigMap {
	c.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}}
	return must[*corev1.ConfigMap](c)(c.CoreV1().ConfigMaps(c.namespace).Create(c.Context(), object, metav1.CreateOptions{}))
}

func (c *conformance) ingress(name string) *networkingv1.Ingress {
	c.Helper()
	object := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}}},
		Status: statusOf("ignored")}
	return must[*networkingv1.Ingress](c)(c.NetworkingV1().Ingresses(c.namespace).Create(c.Context(), object, metav1.CreateOptions{}))
}

func statusOf(host string) networkingv1.IngressStatus {
	ingress := []networkingv1.IngressLoadBalancerIngress{{Hostname: host}}
	return networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: ingress}}
}

func (c *conformance) testOptimisticLock() {
	configMaps := c.CoreV1().ConfigMaps(c.namespace)
	first := c.configMap("lock")
	same := must[*corev1.ConfigMap](c)(configMaps.Update(c.Context(), first, metav1.UpdateOptions{}))
	if same.ResourceVersion != first.ResourceVersion {
		c.Errorf("an update that changes nothing makes version %s of %s", same.ResourceVersion, first.ResourceVersion)
	}
	changed := first.DeepCopy()
	changed.Data = map[string]string{"a": "b"}
	second := must[*corev1.ConfigMap](c)(configMaps.Update(c.Context(), changed, metav1.UpdateOptions{}))
	if second.ResourceVersion == first.ResourceVersion || second.UID != first.UID {
		c.Errorf("an update makes version %s of %s", second.ResourceVersion, first.ResourceVersion)
	}
	_, err := configMaps.Update(c.Context(), changed, metav1.UpdateOptions{})
	c.wantReason("an update of an older version", err, metav1.StatusReasonConflict)
	_, err = configMaps.Patch(c.Context(), "lock", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1"},"data":{"a":"c"}}`), metav1.PatchOptions{})
	c.wantReason("a patch of an older version", err, metav1.StatusReasonConflict)
	err = configMaps.Delete(c.Context(), "lock", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &first.ResourceVersion}})
	c.wantReason("a delete of an older version", err, metav1.StatusReasonConflict)
}

func (c *conformance) testUIDs() {
	configMaps := c.CoreV1().ConfigMaps(c.namespace)
	object := c.configMap("uid")
	_, err := configMaps.Patch(c.Context(), "uid", types.MergePatchType, []byte(`{"metadata":{"uid":"another"},"data":{"a":"b"}}`), metav1.PatchOptions{})
	c.wantReason("a patch of another UID", err, metav1.StatusReasonInvalid)
	other := object.DeepCopy()
	other.UID = "another"
	_, err = configMaps.Update(c.Context(), other, metav1.UpdateOptions{})
	c.wantReason("an update of another UID", err, metav1.StatusReasonConflict)
	err = configMaps.Delete(c.Context(), "uid", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")})
	c.wantReason("a delete of another UID", err, metav1.StatusReasonConflict)
	err = configMaps.Delete(c.Context(), "uid", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(object.UID))})
	c.wantReason("a delete of this UID", err, "")
	again := c.configMap("uid")
	if again.UID == object.UID {
		c.Error("an object that was deleted and created again has its old UID")
	}
}

func (c *conformance) testGeneration() {
	ingresses := c.NetworkingV1().Ingresses(c.namespace)
	c.ingress("generation")
	for _, step := range []struct {
		what, patch string
		want        int64
	}{
		{"a label", `{"metadata":{"labels":{"a":"b"}}}`, 1},
		{"a spec", `{"spec":{"ingressClassName":"x"}}`, 2},
		{"the same spec", `{"spec":{"ingressClassName":"x"}}`, 2},
		{"a finalizer", `{"metadata":{"finalizers":["example.com/a"]}}`, 2},
	} {
		object := must[*networkingv1.Ingress](c)(ingresses.Patch(c.Context(), "generation", types.MergePatchType, []byte(step.patch), metav1.PatchOptions{}))
		if object.Generation != step.want {
			c.Errorf("%s makes generation %d, want %d", step.what, object.Generation, step.want)
		}
	}
	c.wantReason("delete", ingresses.Delete(c.Context(), "generation", metav1.DeleteOptions{}), "")
	if got := must[*networkingv1.Ingress](c)(ingresses.Get(c.Context(), "generation", metav1.GetOptions{})); got.Generation != 3 || got.DeletionTimestamp == nil {
		c.Errorf("its deletion makes generation %d, deleted at %v", got.Generation, got.DeletionTimestamp)
	}
	_, err := ingresses.Patch(c.Context(), "generation", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	c.wantReason("the removal of the finalizer", err, "")
}

func (c *conformance) testStatus() {
	ingresses := c.NetworkingV1().Ingresses(c.namespace)
	object := c.ingress("status")
	if len(object.Status.LoadBalancer.Ingress) > 0 {
		c.Errorf("a create writes the status %v", object.Status)
	}
	object.Status, object.Spec.IngressClassName = statusOf("one"), ptr.To("x")
	object = must[*networkingv1.Ingress](c)(ingresses.UpdateStatus(c.Context(), object, metav1.UpdateOptions{}))
	if object.Spec.IngressClassName != nil || len(object.Status.LoadBalancer.Ingress) != 1 || object.Generation != 1 {
		c.Errorf("a write of the status leaves %+v", object)
	}
	object.Status, object.Spec.IngressClassName = statusOf("two"), ptr.To("x")
	object = must[*networkingv1.Ingress](c)(ingresses.Update(c.Context(), object, metav1.UpdateOptions{}))
	if object.Spec.IngressClassName == nil || object.Status.LoadBalancer.Ingress[0].Hostname != "one" {
		c.Errorf("a write of the spec leaves %+v", object)
	}
}

func (c *conformance) testFinalizers() {
	configMaps := c.CoreV1().ConfigMaps(c.namespace)
	c.configMap("finalizer")
	const finalizers = `{"metadata":{"finalizers":%s}}`
	_, err := configMaps.Patch(c.Context(), "finalizer", types.MergePatchType, fmt.Appendf(nil, finalizers, `["example.com/a"]`), metav1.PatchOptions{})
	c.wantReason("a finalizer", err, "")
	c.wantReason("a delete", configMaps.Delete(c.Context(), "finalizer", metav1.DeleteOptions{}), "")
	_, err = configMaps.Create(c.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "finalizer"}}, metav1.CreateOptions{})
	c.wantReason("a create while it terminates", err, metav1.StatusReasonAlreadyExists)
	c.wantReason("a second delete", configMaps.Delete(c.Context(), "finalizer", metav1.DeleteOptions{}), "")
	_, err = configMaps.Patch(c.Context(), "finalizer", types.MergePatchType, fmt.Appendf(nil, finalizers, "null"), metav1.PatchOptions{})
	c.wantReason("the removal of the finalizer", err, "")
	_, err = configMaps.Get(c.Context(), "finalizer", metav1.GetOptions{})
	c.wantReason("a read of what is gone", err, metav1.StatusReasonNotFound)
	c.wantReason("a delete of what is gone", configMaps.Delete(c.Context(), "finalizer", metav1.DeleteOptions{}), metav1.StatusReasonNotFound)
}

func (c *conformance) testApply() {
	configMaps := c.CoreV1().ConfigMaps(c.namespace)
	apply := func(manager, metadata, value string, force bool) (*corev1.ConfigMap, error) {
		patch := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"apply"%s},"data":{"of-%s":"x","shared":%q}}`, metadata, manager, value)
		return configMaps.Patch(c.Context(), "apply", types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: manager, Force: &force})
	}
	_, err := apply("one", `,"uid":"another"`, "1", false)
	c.wantReason("an apply with a UID where there is no object", err, metav1.StatusReasonConflict)
	object := must[*corev1.ConfigMap](c)(apply("one", `,"resourceVersion":"1"`, "1", false))
	if object.UID == "" || object.Data["shared"] != "1" {
		c.Errorf("an apply creates %+v", object)
	}
	again := must[*corev1.ConfigMap](c)(apply("one", "", "1", false))
	if again.ResourceVersion != object.ResourceVersion {
		c.Errorf("an apply that changes nothing makes version %s of %s", again.ResourceVersion, object.ResourceVersion)
	}
	_, err = apply("one", `,"resourceVersion":"1"`, "2", false)
	c.wantReason("an apply of an older version", err, metav1.StatusReasonConflict)
	_, err = apply("one", `,"uid":"another"`, "2", true)
	c.wantReason("an apply of another UID", err, metav1.StatusReasonInvalid)
	_, err = apply("two", "", "2", false)
	c.wantReason("an apply of another manager's field", err, metav1.StatusReasonConflict)
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		c.Errorf("it does not name the field: %v", err)
	}
	object = must[*corev1.ConfigMap](c)(apply("two", "", "2", true))
	if object.Data["shared"] != "2" || object.Data["of-one"] != "x" || object.Data["of-two"] != "x" {
		c.Errorf("an apply by force leaves %v", object.Data)
	}
}

func (c *conformance) testPatches() {
	configMaps := c.CoreV1().ConfigMaps(c.namespace)
	c.configMap("patch")
	_, err := configMaps.Patch(c.Context(), "nothing", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	c.wantReason("a patch of nothing", err, metav1.StatusReasonNotFound)
	_, err = configMaps.Patch(c.Context(), "patch", types.StrategicMergePatchType, []byte(`{"data":{"a":"1"}}`), metav1.PatchOptions{})
	c.wantReason("a strategic merge patch", err, "")
	_, err = configMaps.Patch(c.Context(), "patch", types.JSONPatchType, []byte(`[{"op":"test","path":"/data/a","value":"2"}]`), metav1.PatchOptions{})
	c.wantReason("a JSON patch whose test fails", err, metav1.StatusReasonInvalid)
	object := must[*corev1.ConfigMap](c)(configMaps.Patch(c.Context(), "patch", types.JSONPatchType, []byte(`[{"op":"add","path":"/data/b","value":"2"}]`), metav1.PatchOptions{}))
	if object.Data["a"] != "1" || object.Data["b"] != "2" {
		c.Errorf("the patches make %v", object.Data)
	}
}

func (c *conformance) testNames() {
	configMaps := c.CoreV1().ConfigMaps(c.namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "made-", UID: "mine", Labels: map[string]string{"app": "names"}}}
	dry := must[*corev1.ConfigMap](c)(configMaps.Create(c.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
	if len(dry.Name) <= len("made-") || dry.UID == "mine" || dry.UID == "" {
		c.Errorf("a dry run makes %q of UID %q", dry.Name, dry.UID)
	}
	_, err := configMaps.Get(c.Context(), dry.Name, metav1.GetOptions{})
	c.wantReason("a read after a dry run", err, metav1.StatusReasonNotFound)
	for range 3 {
		must[*corev1.ConfigMap](c)(configMaps.Create(c.Context(), object, metav1.CreateOptions{}))
	}
	page := must[*corev1.ConfigMapList](c)(configMaps.List(c.Context(), metav1.ListOptions{LabelSelector: "app=names", Limit: 2}))
	rest := must[*corev1.ConfigMapList](c)(configMaps.List(c.Context(), metav1.ListOptions{LabelSelector: "app=names", Limit: 2, Continue: page.Continue}))
	if len(page.Items) != 2 || len(rest.Items) != 1 || rest.Continue != "" {
		c.Errorf("pages of %d and %d, then %q", len(page.Items), len(rest.Items), rest.Continue)
	}
}

func (c *conformance) testWatch() {
	configMaps := c.CoreV1().ConfigMaps(c.namespace)
	c.configMap("watch")
	events := must[watch.Interface](c)(configMaps.Watch(c.Context(), metav1.ListOptions{LabelSelector: "app=watch", SendInitialEvents: ptr.To(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}))
	defer events.Stop()
	next := func(what string, want watch.EventType, label string) {
		c.Helper()
		for {
			select {
			case event := <-events.ResultChan():
				object, ok := event.Object.(*corev1.ConfigMap)
				if event.Type == watch.Bookmark && want != watch.Bookmark {
					continue
				}
				if !ok || event.Type != want || object.Labels["app"] != label {
					c.Fatalf("%s: %s of %v, want %s", what, event.Type, event.Object, want)
				}
				return
			case <-time.After(time.Minute):
				c.Fatalf("%s: no event", what)
			}
		}
	}
	relabel := func(to string) {
		_, err := configMaps.Patch(c.Context(), "watch", types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"app":%q}}}`, to), metav1.PatchOptions{})
		c.wantReason("a label", err, "")
	}
	next("what is there", watch.Added, "watch")
	next("the end of the list", watch.Bookmark, "")
	relabel("other")
	next("what leaves the selection, in its last selected state", watch.Deleted, "watch")
	relabel("watch")
	next("what enters the selection", watch.Added, "watch")
	_, err := configMaps.Patch(c.Context(), "watch", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{})
	c.wantReason("an edit", err, "")
	next("an edit", watch.Modified, "watch")
	c.wantReason("a delete", configMaps.Delete(c.Context(), "watch", metav1.DeleteOptions{}), "")
	next("a delete", watch.Deleted, "watch")
}
