// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"testing"
	"time"

	"millwright.dev/pkg/testing/testcluster"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/testing/faultproxy"
)

// selected is a spec: Widgets with ConfigMaps, found by the parent's own selector.
const selected = `
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
hooks: {sync: {webhook: {url: HOOK/sync}}}
`

// keeps answers with the children that there are, and no others.
func keeps(call *hookCall) any {
	children := list{}
	for _, child := range call.Children["ConfigMap.v1"] {
		metadata := child.(tree)["metadata"].(tree)
		children = append(children, tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"name": metadata["name"], "labels": metadata["labels"]}})
	}
	return tree{"children": children, "status": tree{"seen": len(children)}}
}

// ownedBy wants an object to have the one owner, as its controller, or none.
func ownedBy(parent *unstructured.Unstructured) func(*unstructured.Unstructured) string {
	return func(o *unstructured.Unstructured) string {
		var want []metav1.OwnerReference
		if parent != nil {
			want = []metav1.OwnerReference{{APIVersion: parent.GetAPIVersion(), Kind: parent.GetKind(), Name: parent.GetName(), UID: parent.GetUID(), Controller: new(true), BlockOwnerDeletion: new(true)}}
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
	// One that another parent comes for.
	second := e.parent("second", "{spec: {selector: {matchExpressions: [{key: app, operator: In, values: [other, another]}]}}}")
	e.awaitChild("ConfigMap", "other", ownedBy(second))
	// Whoever changes what he selects gets what was there all the time.
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: third, labels: {app: third}}}")
	e.change(widget, "second", "{spec: {selector: {matchExpressions: [{key: app, operator: In, values: [other, third]}]}}}")
	e.awaitChild("ConfigMap", "third", ownedBy(second))
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
			return "its owners are not both"
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
	e.calm() // no sync is to come between
	e.hook.Wants(t)
	e.change("ConfigMap", "a", "{metadata: {labels: {app: quarantine}}}")
	e.awaitChild("ConfigMap", "a", ownedBy(nil))
	if got := e.look("ConfigMap", "a"); got.GetUID() != child.GetUID() {
		t.Error("it is another one")
	}
}

func TestCompositeForeignChild(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	other := e.parent("other", "{metadata: {labels: {"+testLabel+": nobody}}}")
	foreign := e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: web, ownerReferences: [{apiVersion: test.example.com/v1, kind: Widget, name: other, uid: %s, controller: true}]}}", other.GetUID())
	e.serves(configMaps)
	parent := e.parent("web", "{spec: {who: me}}")
	event := e.awaitEventOn(parent, "ErrResourceExists", "ConfigMap "+e.namespace+"/web")
	if event.Type != "Warning" {
		t.Errorf("the event is %+v", event)
	}
	e.change(widget, "web", "{spec: {who: you}}")
	e.awaitCall(0, func(call *hookCall) bool { return call.spec("who") == "you" })
	e.stays(500*time.Millisecond, func() string {
		if now := e.look("ConfigMap", "web"); now.GetResourceVersion() != foreign.GetResourceVersion() {
			return "it was written to"
		}
		return ""
	})
	if count := e.countEvents(parent, "ErrResourceExists"); count != 1 {
		t.Errorf("it is told %d times", count)
	}
}

// Nothing tells when an object that is nobody's child has gone; it has to be looked at now and then.
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
	t.Logf("after %s", time.Since(gone).Round(time.Millisecond))
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
				return "it has no owner"
			}
			if len(owners) > 1 || !slices.ContainsFunc(parents, func(p *unstructured.Unstructured) bool { return p.GetUID() == owners[0].UID }) {
				t.Fatalf("its owners are %v", owners)
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
			return "not adopted"
		}
		return ""
	})
	e.remove(widget, "web")
	calls := len(e.hook.Calls())
	e.awaitCall(calls, func(call *hookCall) bool { return true })
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: late, labels: {app: web}}}")
	e.change("ConfigMap", "mine", "{metadata: {labels: {app: other}}}")
	e.stays(500*time.Millisecond, func() string {
		if owners := e.look("ConfigMap", "late").GetOwnerReferences(); len(owners) > 0 {
			return "a parent that is being deleted adopts"
		}
		if owners := e.look("ConfigMap", "mine").GetOwnerReferences(); len(owners) != len(mine.GetOwnerReferences()) {
			return "a parent that is being deleted releases"
		}
		return ""
	})
	e.change(widget, "web", "{metadata: {finalizers: null}}")
}

// A parent of the same name is another one: it has no right to the children of the first, and does not wait long for them to go.
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
			return "the garbage collector has not come yet"
		}
		return ""
	}, ownedBy(first))
	begin := time.Now()
	e.change("ConfigMap", "web", "{metadata: {finalizers: null}}")
	e.awaitChild("ConfigMap", "web", ownedBy(second))
	if took := time.Since(begin); took > testcluster.Stretch(10*time.Second, begin) {
		t.Errorf("it took %s", took)
	}
}

// Metacontroller leaves children with its annotation and its ownerReference. To this engine they are children like its own.
func TestCompositeMetacontrollerChildren(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	e.hook.Answers(oneConfigMap)
	parent := e.parent("web", "{metadata: {finalizers: [metacontroller.io/compositecontroller-"+e.name+"]}, spec: {who: me}}")
	e.change(widget, "web", "{status: {seen: 1, observedGeneration: 1}}", "status")
	applied := `{"apiVersion":"v1","data":{"who":"me"},"kind":"ConfigMap","metadata":{"labels":{"controller-uid":"` + string(parent.GetUID()) + `"},"name":"web","namespace":"` + e.namespace + `"}}`
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
	e.change("ConfigMap", "web", "{metadata: {labels: {note: somebody}}}") // leads to another sync
	e.awaitCall(1, func(call *hookCall) bool { return true })
	time.Sleep(500 * time.Millisecond)
	if now := e.look("ConfigMap", "web"); now.GetUID() != child.GetUID() {
		t.Error("the child is another one")
	}
	if now := e.look(widget, "web"); now.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("the parent was written to")
	}
	for _, entry := range journal.Entries() {
		if entry.Namespace == e.namespace && entry.IsWrite() {
			t.Errorf("the engine sent %s", entry)
		}
	}
	// And it goes on where Metacontroller has ended: a field that it has applied is removed.
	e.hook.Wants(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {what: new}}")
	e.change(widget, "web", "{spec: {who: nobody}}")
	e.awaitChild("ConfigMap", "web", has(map[string]any{"what": "new"}, "data"), has("somebody", "metadata", "labels", "note"))
}
