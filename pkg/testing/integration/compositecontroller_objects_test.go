// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// object parses YAML.
func object(t testing.TB, text string, args ...any) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(fmt.Sprintf(text, args...)), &o.Object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

// at returns the client of a kind, such as "ConfigMap" or "Deployment.apps/v1". Namespaced objects are in the test's namespace.
func (e *engineEnv) at(kind string) dynamic.ResourceInterface {
	gvk := schema.GroupVersionKind{Version: "v1", Kind: kind}
	if name, groupVersion, found := strings.Cut(kind, "."); found {
		gv, err := schema.ParseGroupVersion(groupVersion)
		if err != nil {
			e.Fatal(err)
		}
		gvk = gv.WithKind(name)
	}
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	switch gvk.Kind {
	case "Namespace", "ClusterWidget", "CompositeController", "DecoratorController", "CustomResourceDefinition", "ClusterRole", "ConfigMapPropagation":
		return e.dynamic.Resource(resource)
	}
	return e.dynamic.Resource(resource).Namespace(e.namespace)
}

// kindOf returns the kind of an object; see at.
func kindOf(o *unstructured.Unstructured) string {
	if gvk := o.GroupVersionKind(); gvk.Group != "" {
		return gvk.Kind + "." + gvk.Group + "/" + gvk.Version
	}
	return o.GetKind()
}

// The kinds of parents, which testdata/compositecontroller defines.
const (
	widget        = "Widget.test.example.com/v1"
	clusterWidget = "ClusterWidget.test.example.com/v1"
)

// put creates an object.
func (e *engineEnv) put(text string, args ...any) *unstructured.Unstructured {
	e.Helper()
	o := object(e, text, args...)
	created, err := e.at(kindOf(o)).Create(e.Context(), o, metav1.CreateOptions{})
	if err != nil {
		e.Fatalf("creating %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return created
}

// parent creates a Widget of this test, merged with more YAML.
func (e *engineEnv) parent(name string, more ...string) *unstructured.Unstructured {
	e.Helper()
	text := fmt.Sprintf("{apiVersion: test.example.com/v1, kind: Widget, metadata: {name: %s, labels: {%s: %s}}}", name, testLabel, e.namespace)
	o := object(e, "%s", text)
	for _, m := range more {
		merge(o.Object, object(e, "%s", m).Object)
	}
	created, err := e.at(widget).Create(e.Context(), o, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return created
}

// merge merges one tree into another.
func merge(into, more map[string]any) {
	for key, value := range more {
		if tree, ok := value.(map[string]any); ok {
			if old, ok := into[key].(map[string]any); ok {
				merge(old, tree)
				continue
			}
		}
		into[key] = value
	}
}

// look returns an object, or nil if it does not exist.
func (e *engineEnv) look(kind, name string) *unstructured.Unstructured {
	e.Helper()
	o, err := e.at(kind).Get(e.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		e.Fatal(err)
	}
	return o
}

// change applies a merge patch in YAML, and returns the object.
func (e *engineEnv) change(kind, name, patch string, subresources ...string) *unstructured.Unstructured {
	e.Helper()
	body, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		e.Fatal(err)
	}
	o, err := e.at(kind).Patch(e.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "user"}, subresources...)
	if err != nil {
		e.Fatalf("changing %s %s: %v", kind, name, err)
	}
	return o
}

func (e *engineEnv) remove(kind, name string) {
	e.Helper()
	background := metav1.DeletePropagationBackground
	err := e.at(kind).Delete(e.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		e.Fatal(err)
	}
}

// awaitChild waits until an object exists and all checks return "", and returns it.
func (e *engineEnv) awaitChild(kind, name string, checks ...func(*unstructured.Unstructured) string) (child *unstructured.Unstructured) {
	e.Helper()
	e.eventually(func() string {
		if child = e.look(kind, name); child == nil {
			return fmt.Sprintf("%s %s does not exist", kind, name)
		}
		for _, check := range checks {
			if complaint := check(child); complaint != "" {
				return complaint
			}
		}
		return ""
	})
	return child
}

func (e *engineEnv) awaitGone(kind, name string) {
	e.Helper()
	e.eventually(func() string {
		if o := e.look(kind, name); o != nil {
			return fmt.Sprintf("%s %s still exists: %v", kind, name, o.Object)
		}
		return ""
	})
}

// has checks that a field has the value.
func has(value any, path ...string) func(*unstructured.Unstructured) string {
	return func(o *unstructured.Unstructured) string {
		got, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
		if fmt.Sprint(got) != fmt.Sprint(value) {
			return fmt.Sprintf("%s of %s: got %v, want %v", strings.Join(path, "."), o.GetName(), got, value)
		}
		return ""
	}
}

// stays fails the test if the check returns a complaint within this time.
func (e *engineEnv) stays(howLong time.Duration, check func() string) {
	e.Helper()
	for begin := time.Now(); time.Since(begin) < howLong; time.Sleep(50 * time.Millisecond) {
		if complaint := check(); complaint != "" {
			e.Fatalf("after %s: %s", time.Since(begin).Round(time.Millisecond), complaint)
		}
	}
}

// eventsOn returns the events on an object. Those on cluster-scoped objects are in the namespace default.
func (e *engineEnv) eventsOn(o *unstructured.Unstructured) []corev1.Event {
	e.Helper()
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	list, err := e.kube.CoreV1().Events(namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(o.GetUID())})
	if err != nil {
		e.Fatal(err)
	}
	return list.Items
}

// awaitEventOn waits for an event on an object whose message has the text, and returns it.
func (e *engineEnv) awaitEventOn(o *unstructured.Unstructured, reason, text string) (found corev1.Event) {
	e.Helper()
	e.eventually(func() string {
		complaint := "no event " + reason + " with " + text + "; got:"
		for _, event := range e.eventsOn(o) {
			if event.Reason == reason && strings.Contains(event.Message, text) {
				found = event
				return ""
			}
			complaint += "\n" + event.Reason + ": " + event.Message
		}
		return complaint
	})
	return found
}

// countEvents returns how often events of the reason were recorded on an object.
func (e *engineEnv) countEvents(o *unstructured.Unstructured, reason string) (count int) {
	e.Helper()
	for _, event := range e.eventsOn(o) {
		if event.Reason == reason {
			count += int(max(event.Count, 1))
		}
	}
	return count
}

// typed converts an object to a struct.
func typed[T any](t testing.TB, o *unstructured.Unstructured) *T {
	t.Helper()
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		t.Fatal(err)
	}
	return into
}
