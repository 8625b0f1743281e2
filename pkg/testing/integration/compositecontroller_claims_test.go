// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// selected is a spec: the parents are Widgets, the children ConfigMaps that the parent's own selector selects.
const selected = `
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`

// keeps answers with the children that the request shows.
func keeps(call *hookCall) any {
	children := list{}
	for _, child := range call.Children["ConfigMap.v1"] {
		metadata := child.(tree)["metadata"].(tree)
		children = append(children, tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": metadata["name"], "labels": metadata["labels"]}})
	}
	return tree{"children": children, "status": tree{"seen": len(children)}}
}

// ownedBy checks that an object has only this owner, as its controller, or no owner if the parent is nil.
func ownedBy(parent *unstructured.Unstructured) func(*unstructured.Unstructured) string {
	return func(o *unstructured.Unstructured) string {
		var want []metav1.OwnerReference
		if parent != nil {
			want = []metav1.OwnerReference{{
				APIVersion: parent.GetAPIVersion(), Kind: parent.GetKind(), Name: parent.GetName(), UID: parent.GetUID(),
				Controller: new(true), BlockOwnerDeletion: new(true),
			}}
		}
		return cmp.Diff(want, o.GetOwnerReferences())
	}
}

func TestCompositeAdoptsOrphans(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(keeps)
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: before, labels: {app: web}}}")
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: other, labels: {app: other}}}")
	e.serves(selected)
	parent := e.parent("web", "{spec: {selector: {matchLabels: {app: web}}}}")
	e.awaitChild("ConfigMap", "before", ownedBy(parent))
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: after, labels: {app: web}}}")
	e.awaitChild("ConfigMap", "after", ownedBy(parent))
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: labelled}}")
	e.change("ConfigMap", "labelled", "{metadata: {labels: {app: web}}}")
	e.awaitChild("ConfigMap", "labelled", ownedBy(parent))
	e.awaitChild(widget, "web", has(3, "status", "seen"))
	// A new parent adopts an orphan that existed before.
	second := e.parent("second", "{spec: {selector: {matchExpressions: [{key: app, operator: In, values: [other, another]}]}}}")
	e.awaitChild("ConfigMap", "other", ownedBy(second))
	// After a change of its selector a parent adopts objects that existed before.
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: third, labels: {app: third}}}")
	e.change(widget, "second", "{spec: {selector: {matchExpressions: [{key: app, operator: In, values: [other, third]}]}}}")
	e.awaitChild("ConfigMap", "third", ownedBy(second))
}

// TestCompositeRefusesAdoption: a selector that demands no value of a label matches everything in the namespace, also what Kubernetes made there. The hook
// desires none of it.
func TestCompositeRefusesAdoption(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(*hookCall) any {
		return tree{"children": list{tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": "desired", "labels": tree{"mine": "yes"}}}}}
	})
	orphan := e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: orphan}}")
	cc := e.serves(selected)
	parent := e.parent("web", "{spec: {selector: {matchExpressions: [{key: secret, operator: DoesNotExist}]}}}")
	e.awaitChild("ConfigMap", "desired", ownedBy(parent))
	message := e.awaitReason(v1alpha1.ReasonAdoptionRefused)
	for _, want := range []string{e.namespace + "/web", "!secret", "configmaps", "adoption: any"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message is %q, want %q in it", message, want)
		}
	}
	e.awaitEventOn(cc, v1alpha1.ReasonAdoptionRefused, e.namespace+"/web")
	e.calm()
	if kept := e.look("ConfigMap", "orphan"); kept == nil || kept.GetResourceVersion() != orphan.GetResourceVersion() {
		t.Errorf("the orphan is %v", kept)
	}
	// The condition ends with its cause.
	e.change(widget, "web", "{spec: {selector: {matchExpressions: [{key: mine, operator: Exists}]}}}")
	e.awaitReason(v1alpha1.ReasonServing)
	e.change("ConfigMap", "orphan", "{metadata: {labels: {mine: 'yes'}}}")
	e.awaitReason(v1alpha1.ReasonAdoptionRefused)
	e.change("ConfigMap", "orphan", "{metadata: {labels: {mine: null}}}")
	e.awaitReason(v1alpha1.ReasonServing)
	e.change("ConfigMap", "orphan", "{metadata: {labels: {mine: 'yes'}}}")
	e.change(composite, e.name, "{spec: {adoption: any}}")
	e.awaitGone("ConfigMap", "orphan") // it is adopted, and not desired
}

// TestCompositeIsNoChildOfItself: parents and children are of one kind, and the selector of the parent matches the parent and its owner.
func TestCompositeIsNoChildOfItself(t *testing.T) {
	e := inSharedEngine(t)
	e.grantEngine(rightsOnChildren("test.example.com", "widgets")...)
	e.hook.Answers(func(*hookCall) any { return tree{"children": list{}} })
	above := e.put("{apiVersion: test.example.com/v1, kind: Widget, metadata: {name: above, labels: {app: web}}}")
	e.put("{apiVersion: test.example.com/v1, kind: Widget, metadata: {name: orphan, labels: {app: web}}}")
	e.serves(`
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
childResources: [{apiVersion: test.example.com/v1, resource: widgets}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`)
	parent := e.put(`{apiVersion: test.example.com/v1, kind: Widget, metadata: {name: web, labels: {app: web, %s: %s}, ownerReferences: [
{apiVersion: test.example.com/v1, kind: Widget, name: above, uid: %s}]}, spec: {selector: {matchLabels: {app: web}}}}`, testLabel, e.namespace, above.GetUID())
	e.awaitGone(widget, "orphan") // it is adopted, and not desired
	e.calm()
	for _, kept := range []*unstructured.Unstructured{above, parent} {
		now := e.look(widget, kept.GetName())
		if now == nil || now.GetUID() != kept.GetUID() || now.GetDeletionTimestamp() != nil {
			t.Errorf("%s is %v", kept.GetName(), now)
		} else if diff := cmp.Diff(kept.GetOwnerReferences(), now.GetOwnerReferences()); diff != "" {
			t.Errorf("owners of %s (-want +got):\n%s", kept.GetName(), diff)
		}
	}
}

// TestCompositeParentsAreNotAdopted: two parents match the selectors of each other.
func TestCompositeParentsAreNotAdopted(t *testing.T) {
	e := inSharedEngine(t)
	e.grantEngine(rightsOnChildren("test.example.com", "widgets")...)
	e.hook.Answers(func(call *hookCall) any {
		return tree{"children": list{tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": call.name(), "labels": tree{"app": "web"}}}}}
	})
	e.serves(`
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
childResources: [{apiVersion: test.example.com/v1, resource: widgets}, {apiVersion: v1, resource: configmaps}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`)
	selecting := "{metadata: {labels: {app: web}}, spec: {selector: {matchLabels: {app: web}}}}"
	parents := []*unstructured.Unstructured{e.parent("a", selecting), e.parent("b", selecting)}
	for _, parent := range parents {
		e.awaitChild("ConfigMap", parent.GetName(), ownedBy(parent))
	}
	if message := e.awaitReason(v1alpha1.ReasonAdoptionRefused); !strings.Contains(message, "parents themselves") {
		t.Errorf("the message is %q", message)
	}
	for _, parent := range parents {
		e.awaitChild(widget, parent.GetName(), ownedBy(nil))
	}
	// The condition ends with its cause.
	e.change(widget, "b", "{metadata: {labels: {app: null}}}")
	e.change(widget, "a", "{metadata: {labels: {app: null}}}")
	e.awaitReason(v1alpha1.ReasonServing)
}

// TestCompositeOrphanOfParentThatReturns: a parent is not selected for a while, and its child loses its owner meanwhile.
func TestCompositeOrphanOfParentThatReturns(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	e.serves(configMaps)
	parent := e.parent("web")
	child := e.awaitChild("ConfigMap", "web", ownedBy(parent))
	other := e.parent("other") // its child shows when the engine has observed what was written before
	e.change(widget, "web", "{metadata: {labels: {"+testLabel+": null}}}")
	e.change("ConfigMap", "web", "{metadata: {ownerReferences: null}}")
	e.change(widget, "other", "{spec: {who: me}}")
	e.awaitChild("ConfigMap", "other", ownedBy(other), has("me", "data", "who"))
	e.change(widget, "web", fmt.Sprintf("{metadata: {labels: {%s: %s}}}", testLabel, e.namespace))
	if adopted := e.awaitChild("ConfigMap", "web", ownedBy(parent)); adopted.GetUID() != child.GetUID() {
		t.Error("the child was made again")
	}
}

// TestCompositeNamespaceMadeAgain: the child of a cluster-scoped parent is in a namespace that is deleted, and made again. The engine does not watch
// namespaces.
func TestCompositeNamespaceMadeAgain(t *testing.T) {
	e := inSharedEngine(t)
	namespace := e.namespace + "-again"
	e.hook.Answers(func(*hookCall) any {
		return tree{"children": list{tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": "a", "namespace": namespace}}}}
	})
	put := func() {
		t.Helper()
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if _, err := e.kube.CoreV1().Namespaces().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	awaitChild := func() {
		t.Helper()
		e.eventually(func() string {
			if _, err := e.kube.CoreV1().ConfigMaps(namespace).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	put()
	e.cleanUp("Namespace", namespace)
	e.serves(strings.Replace(configMaps, "widgets", "clusterwidgets", 1))
	e.put("{apiVersion: test.example.com/v1, kind: ClusterWidget, metadata: {name: %s, labels: {%s: %s}}}", e.name, testLabel, e.namespace)
	e.cleanUp(clusterWidget, e.name)
	awaitChild()
	// The namespace cannot go before the engine has tried to create the child again.
	holds := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "holds", Finalizers: []string{"example.com/holds"}}}
	if _, err := e.kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), holds, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	calls := len(e.hook.Calls())
	e.beginDeletion(namespace)
	e.awaitCall(calls, func(call *hookCall) bool { return len(call.Children["ConfigMap.v1"]) == 0 })
	e.calm()
	release := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := e.kube.CoreV1().ConfigMaps(namespace).Patch(t.Context(), "holds", types.MergePatchType, release, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitGone("Namespace", namespace)
	put()
	awaitChild()
}

// TestCompositeChildWithCopiedAnnotation: the parent is an attachment of a DecoratorController, and the hook copies its annotations to its child.
func TestCompositeChildWithCopiedAnnotation(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(call *hookCall) any {
		metadata := call.Parent["metadata"].(tree)
		return tree{"children": list{tree{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": "a", "labels": tree{"app": "web"}, "annotations": metadata["annotations"]},
		}}, "status": tree{"seen": len(call.Children["ConfigMap.v1"])}}
	})
	e.serves(selected)
	e.parent("web", "{metadata: {annotations: {metacontroller.k8s.io/decorator-controller: dc, mine: one}}, spec: {selector: {matchLabels: {app: web}}}}")
	e.awaitChild(widget, "web", has(1, "status", "seen"))
	e.change(widget, "web", "{metadata: {annotations: {mine: two}}}")
	e.awaitChild("ConfigMap", "a", func(child *unstructured.Unstructured) string {
		annotations := child.GetAnnotations()
		delete(annotations, "metacontroller.k8s.io/last-applied-configuration")
		return cmp.Diff(map[string]string{"mine": "two"}, annotations)
	})
	e.remove(widget, "web")
	e.awaitGone("ConfigMap", "a")
}

func TestCompositeAdoptionKeepsOwners(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(keeps)
	other := e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: owner}}")
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: web}, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s}]}}", other.GetUID())
	e.serves(selected)
	parent := e.parent("web", "{spec: {selector: {matchLabels: {app: web}}}}")
	e.awaitChild("ConfigMap", "a", func(o *unstructured.Unstructured) string {
		owners := o.GetOwnerReferences()
		if len(owners) != 2 || owners[0].UID != other.GetUID() || owners[1].UID != parent.GetUID() {
			return fmt.Sprintf("got owners %v, want the old one and the parent", owners)
		}
		return ""
	})
}

func TestCompositeReleasesChild(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: web}}}")
	e.serves(selected)
	parent := e.parent("web", "{spec: {selector: {matchLabels: {app: web}}}}")
	child := e.awaitChild("ConfigMap", "a", ownedBy(parent))
	e.awaitShown("web")
	e.calm() // no other sync may come in between
	e.hook.Wants(t)
	e.change("ConfigMap", "a", "{metadata: {labels: {app: quarantine}}}")
	e.awaitChild("ConfigMap", "a", ownedBy(nil))
	if got := e.look("ConfigMap", "a"); got.GetUID() != child.GetUID() {
		t.Error("the ConfigMap was created again")
	}
}

func TestCompositeForeignChild(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	other := e.parent("other", "{metadata: {labels: {"+testLabel+": another}}}")
	foreign := e.put(`{apiVersion: v1, kind: ConfigMap, metadata: {name: web,
  ownerReferences: [{apiVersion: test.example.com/v1, kind: Widget, name: other, uid: %s, controller: true}]}}`, other.GetUID())
	e.serves(configMaps)
	parent := e.parent("web", "{spec: {who: me}}")
	event := e.awaitEventOn(parent, "ErrResourceExists", "ConfigMap "+e.namespace+"/web")
	if event.Type != "Warning" {
		t.Errorf("got event %+v, want a Warning", event)
	}
	e.change(widget, "web", "{spec: {who: you}}")
	e.awaitCall(0, func(call *hookCall) bool { return call.spec("who") == "you" })
	e.stays(500*time.Millisecond, func() string {
		if now := e.look("ConfigMap", "web"); now.GetResourceVersion() != foreign.GetResourceVersion() {
			return "the foreign object was written"
		}
		return ""
	})
	if count := e.countEvents(parent, "ErrResourceExists"); count != 1 {
		t.Errorf("got %d events ErrResourceExists, want 1", count)
	}
}

// The engine gets no watch event when an object without the label is deleted. It looks for the object within a minute.
func TestCompositeObjectInTheWay(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}") // it lacks the label
	e.serves(configMaps)
	parent := e.parent("web", "{spec: {who: me}}")
	e.awaitEventOn(parent, "ErrResourceExists", "web")
	e.remove("ConfigMap", "web")
	gone := time.Now()
	e.awaitChild("ConfigMap", "web", has("me", "data", "who"))
	t.Logf("the child was created %s after the deletion", time.Since(gone).Round(time.Millisecond))
}

func TestCompositeSameSelector(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(keeps)
	e.serves(selected)
	parents := []*unstructured.Unstructured{
		e.parent("a", "{spec: {selector: {matchLabels: {app: web}}}}"),
		e.parent("b", "{spec: {selector: {matchLabels: {app: web}}}}"),
	}
	names := []string{"one", "two", "three", "four"}
	for _, name := range names {
		e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, labels: {app: web}}}", name)
	}
	for _, name := range names {
		e.awaitChild("ConfigMap", name, func(o *unstructured.Unstructured) string {
			owners := o.GetOwnerReferences()
			if len(owners) == 0 {
				return fmt.Sprintf("ConfigMap %s has no owner", name)
			}
			if len(owners) > 1 || !slices.ContainsFunc(parents, func(p *unstructured.Unstructured) bool { return p.GetUID() == owners[0].UID }) {
				t.Fatalf("owners of ConfigMap %s: got %v, want one of the parents", name, owners)
			}
			return ""
		})
	}
}

func TestCompositeTerminatingParent(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(keeps)
	e.serves(selected)
	e.parent("web", "{metadata: {finalizers: [example.com/wait]}, spec: {selector: {matchLabels: {app: web}}}}")
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: mine, labels: {app: web}}}")
	mine := e.awaitChild("ConfigMap", "mine", func(o *unstructured.Unstructured) string {
		if len(o.GetOwnerReferences()) == 0 {
			return "the ConfigMap was not adopted"
		}
		return ""
	})
	calls := len(e.hook.Calls())
	e.remove(widget, "web")
	e.awaitCall(calls, func(call *hookCall) bool { return true })
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: late, labels: {app: web}}}")
	e.change("ConfigMap", "mine", "{metadata: {labels: {app: other}}}")
	e.stays(500*time.Millisecond, func() string {
		if owners := e.look("ConfigMap", "late").GetOwnerReferences(); len(owners) > 0 {
			return "a terminating parent has adopted a child"
		}
		if owners := e.look("ConfigMap", "mine").GetOwnerReferences(); len(owners) != len(mine.GetOwnerReferences()) {
			return "a terminating parent has released a child"
		}
		return ""
	})
	e.change(widget, "web", "{metadata: {finalizers: null}}")
}

// A parent that is created again has another UID: it does not own the children of the first one, and creates its own soon after they are
// gone.
func TestCompositeParentRecreated(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	e.serves(configMaps)
	first := e.parent("web")
	e.awaitChild("ConfigMap", "web", ownedBy(first))
	e.change("ConfigMap", "web", "{metadata: {finalizers: [example.com/wait]}}")
	e.remove(widget, "web")
	second := e.parent("web")
	e.awaitEventOn(second, "ErrResourceExists", "web")
	e.awaitChild("ConfigMap", "web", func(o *unstructured.Unstructured) string {
		if o.GetDeletionTimestamp() == nil {
			return "the garbage collector has not deleted the child yet"
		}
		return ""
	}, ownedBy(first))
	e.change("ConfigMap", "web", "{metadata: {finalizers: null}}")
	e.awaitChild("ConfigMap", "web", ownedBy(second))
}

// Metacontroller's children have its annotation and its owner reference. The engine takes them over without a write.
func TestCompositeMetacontrollerChildren(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	e.hook.Answers(oneConfigMap)
	parent := e.parent("web", "{metadata: {finalizers: [metacontroller.io/compositecontroller-"+e.name+"]}, spec: {who: me}}")
	e.change(widget, "web", "{status: {seen: 1, observedGeneration: 1}}", "status")
	applied := `{"apiVersion":"v1","data":{"who":"me"},"kind":"ConfigMap","metadata":{"labels":{"controller-uid":"` + string(parent.GetUID()) +
		`"},"name":"web","namespace":"` + e.namespace + `"}}`
	child := object(t, `{apiVersion: v1, kind: ConfigMap, data: {who: me}, metadata: {name: web, labels: {controller-uid: %[1]s},
  annotations: {metacontroller.k8s.io/last-applied-configuration: '%[2]s'},
  ownerReferences: [{apiVersion: test.example.com/v1, kind: Widget, name: web, uid: %[1]s, controller: true, blockOwnerDeletion: true}]}}`, parent.GetUID(), applied)
	child, err := e.at("ConfigMap").Create(t.Context(), child, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := e.look(widget, "web")
	var journal faultproxy.Journal
	e.run(&journal)
	e.serves(finalized)
	e.awaitCall(0, func(call *hookCall) bool { return len(call.Children["ConfigMap.v1"]) == 1 })
	e.change("ConfigMap", "web", "{metadata: {labels: {note: a-user}}}") // leads to another sync
	e.awaitCall(1, func(call *hookCall) bool { return true })
	time.Sleep(500 * time.Millisecond)
	if now := e.look("ConfigMap", "web"); now.GetUID() != child.GetUID() {
		t.Error("the child was created again")
	}
	if now := e.look(widget, "web"); now.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("the parent was written")
	}
	for _, entry := range journal.Entries() {
		if entry.Namespace == e.namespace && entry.IsWrite() {
			t.Errorf("the engine sent %s", entry)
		}
	}
	// The engine continues from Metacontroller's annotation: it removes a field that Metacontroller has applied.
	e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {what: new}}")
	e.change(widget, "web", "{spec: {who: another}}")
	e.awaitChild("ConfigMap", "web", has(map[string]any{"what": "new"}, "data"), has("a-user", "metadata", "labels", "note"))
}
