// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// finalized is a spec with both hooks.
const finalized = `
generateSelector: true
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
hooks: {sync: {webhook: {url: HOOK/sync}}, finalize: {webhook: {url: HOOK/finalize}}}
`

// finalizer returns the finalizer of the test's CompositeController on parents. It is the same as Metacontroller's.
func (e *engineEnv) finalizer() string { return "metacontroller.io/compositecontroller-" + e.name }

// finalizers checks that an object has these finalizers.
func finalizers(want ...string) func(*unstructured.Unstructured) string {
	return func(o *unstructured.Unstructured) string {
		if got := o.GetFinalizers(); !slices.Equal(got, want) {
			return fmt.Sprintf("finalizers of %s: got %v, want %v", o.GetName(), got, want)
		}
		return ""
	}
}

// clearsAway answers finalize hooks: it deletes the children first, then the parent.
func clearsAway(call *hookCall) any {
	if !call.Finalizing {
		return oneConfigMap(call)
	}
	return tree{"status": tree{"left": len(call.Children["ConfigMap.v1"])}, "children": list{}, "finalized": len(call.Children["ConfigMap.v1"]) == 0}
}

func TestCompositeFinalizerFirst(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(clearsAway)
	e.serves(finalized)
	e.parent("web", "{metadata: {finalizers: [example.com/other]}}")
	e.awaitChild("ConfigMap", "web")
	first := typed[metav1.PartialObjectMetadata](t, &unstructured.Unstructured{Object: e.hook.Calls()[0].Parent})
	if !slices.Equal(first.Finalizers, []string{"example.com/other", e.finalizer()}) {
		t.Errorf("finalizers in the first call of the hook: got %v, want the one of the engine too", first.Finalizers)
	}
	e.change(widget, "web", "{metadata: {finalizers: ["+e.finalizer()+"]}}")
	e.remove(widget, "web")
	e.awaitGone(widget, "web")
}

func TestCompositeFinalize(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(clearsAway)
	e.serves(finalized)
	e.parent("web", "{metadata: {finalizers: [example.com/watch]}}")
	e.awaitChild("ConfigMap", "web")
	e.awaitChild(widget, "web", has(1, "status", "seen"))
	synced := len(e.hook.CallsOf("/sync"))
	e.remove(widget, "web")
	e.awaitGone("ConfigMap", "web")
	e.awaitChild(widget, "web", finalizers("example.com/watch"))
	e.change(widget, "web", "{metadata: {finalizers: null}}")
	e.awaitGone(widget, "web")

	calls := e.hook.CallsOf("/finalize")
	if len(calls) < 2 || len(calls[0].Children["ConfigMap.v1"]) != 1 || len(calls[len(calls)-1].Children["ConfigMap.v1"]) != 0 {
		t.Errorf("got %d calls of finalize, want the first with the child and the last without", len(calls))
	}
	for _, call := range calls {
		if !call.Finalizing {
			t.Error("finalize was called with finalizing false")
		}
	}
	for _, call := range e.hook.CallsOf("/sync")[synced:] {
		if metadata := call.Parent["metadata"].(map[string]any); metadata["deletionTimestamp"] != nil {
			t.Error("sync was called for a terminating parent")
		}
	}
}

// The field finalized has no effect in the response of a sync hook.
func TestCompositeFinalizedInSyncResponse(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(call *hookCall) any {
		answer := oneConfigMap(call).(tree)
		answer["finalized"] = true
		return answer
	})
	e.serves(finalized)
	e.parent("web")
	e.awaitChild(widget, "web", has(1, "status", "seen"))
	version := e.look(widget, "web").GetResourceVersion()
	e.stays(time.Second, func() string {
		now := e.look(widget, "web")
		if now.GetResourceVersion() != version {
			return "the parent was written"
		}
		return finalizers(e.finalizer())(now)
	})
}

func TestCompositeFinalizeDeselectedParent(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(clearsAway)
	e.serves(finalized)
	e.parent("web")
	e.awaitChild("ConfigMap", "web")
	e.change(widget, "web", "{metadata: {labels: {"+testLabel+": null}}}")
	e.awaitGone("ConfigMap", "web")
	e.awaitChild(widget, "web", finalizers())
	if call := e.hook.CallsOf("/finalize")[0]; !call.Finalizing || call.Parent["metadata"].(map[string]any)["deletionTimestamp"] != nil {
		t.Errorf("call of finalize: got finalizing %t, want true and no deletionTimestamp", call.Finalizing)
	}
	calls := len(e.hook.Calls())
	e.change(widget, "web", "{spec: {a: b}}")
	e.stays(300*time.Millisecond, func() string {
		if len(e.hook.Calls()) > calls {
			return "a hook was called for an object that is not selected any more"
		}
		return ""
	})
	e.change(widget, "web", "{metadata: {labels: {"+testLabel+": "+e.namespace+"}}}")
	e.awaitChild("ConfigMap", "web")
	e.awaitChild(widget, "web", finalizers(e.finalizer()))
}

// In a foreground deletion the garbage collector deletes the children. The engine does not touch them, but finalizes the parent.
func TestCompositeFinalizeForeground(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(call *hookCall) any {
		finalizers, _ := call.Parent["metadata"].(map[string]any)["finalizers"].([]any)
		answer := tree{"finalized": call.Finalizing && len(call.Children["ConfigMap.v1"]) == 0}
		// The garbage collector may remove its finalizer before it has seen the child: then this is not a foreground deletion any more.
		if !call.Finalizing || slices.Contains(finalizers, any(metav1.FinalizerDeleteDependents)) {
			answer["children"] = oneConfigMap(call).(tree)["children"]
		}
		return answer
	})
	e.serves(finalized)
	e.parent("web")
	child := e.awaitChild("ConfigMap", "web")
	foreground := metav1.DeletePropagationForeground
	if err := e.at(widget).Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	e.awaitGone(widget, "web")
	if now := e.look("ConfigMap", "web"); now != nil && now.GetUID() != child.GetUID() {
		t.Error("a child was created for a parent that is being deleted in the foreground")
	}
	e.awaitGone("ConfigMap", "web")
}

func TestCompositeFinalizeHookOnly(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Says(tree{"finalized": true})
	e.serves(`
generateSelector: true
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
hooks: {finalize: {webhook: {url: HOOK/finalize}}}
`)
	parent := e.parent("web")
	e.awaitChild(widget, "web", finalizers(e.finalizer()))
	e.awaitReason(v1alpha1.ReasonServing)
	if calls := e.hook.Calls(); len(calls) > 0 {
		t.Errorf("got %d calls of the hook for a parent that is not terminating, want none", len(calls))
	}
	if events := e.countEvents(parent, "SyncError"); events > 0 {
		t.Errorf("got %d events SyncError, want none", events)
	}
	e.remove(widget, "web")
	e.awaitGone(widget, "web")
}

// A finalize hook without a webhook has no effect.
func TestCompositeFinalizeWithoutWebhook(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	e.serves(`
generateSelector: true
parentResource: {apiVersion: test.example.com/v1, resource: widgets}
childResources: [{apiVersion: v1, resource: configmaps}]
hooks: {sync: {webhook: {url: HOOK/sync}}, finalize: {}}
`)
	e.parent("web")
	e.awaitChild("ConfigMap", "web")
	if got := e.look(widget, "web").GetFinalizers(); len(got) > 0 {
		t.Errorf("got finalizers %v, want none", got)
	}
	e.remove(widget, "web")
	e.awaitGone(widget, "web")
	e.awaitGone("ConfigMap", "web")
}

func TestCompositeFinalizeSwitchedOff(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(clearsAway)
	e.serves(finalized)
	for _, name := range []string{"a", "b", "c"} {
		e.parent(name)
		e.awaitChild(widget, name, finalizers(e.finalizer()))
	}
	// The parent c is not selected any more, and not finalized yet.
	e.hook.Says(tree{"finalized": false})
	e.change(widget, "c", "{metadata: {labels: {"+testLabel+": null}}}")
	e.awaitCall(0, func(call *hookCall) bool { return call.Finalizing && call.name() == "c" })
	e.hook.Answers(clearsAway)
	e.change(composite, e.name, "{spec: {hooks: {finalize: null}}}")
	for _, name := range []string{"a", "b", "c"} {
		e.awaitChild(widget, name, finalizers())
	}
	e.awaitChild(composite, e.name, finalizers())
	if calls := len(e.hook.CallsOf("/finalize")); calls == 0 {
		t.Error("finalize was not called: nothing is tested")
	}
}

func TestCompositeFinalizeSwitchedOffOffline(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	e.hook.Answers(clearsAway)
	stop := e.run(&faultproxy.Journal{})
	e.serves(finalized)
	for _, name := range []string{"in", "out"} {
		e.parent(name)
		e.awaitChild(widget, name, finalizers(e.finalizer()))
	}
	stop()
	e.change(composite, e.name, "{spec: {hooks: {finalize: null}}}")
	e.change(widget, "out", "{metadata: {labels: {"+testLabel+": null}}}") // the engine's watch does not show it
	e.run(&faultproxy.Journal{})
	e.awaitChild(widget, "in", finalizers())
	e.awaitChild(widget, "out", finalizers())
	e.awaitChild(composite, e.name, finalizers())
}

func TestCompositeDeleteRemovesFinalizers(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(clearsAway)
	cc := e.serves(finalized)
	for _, name := range []string{"a", "b"} {
		e.parent(name, "{metadata: {finalizers: [example.com/other]}}")
		e.awaitChild(widget, name, finalizers("example.com/other", e.finalizer()))
		e.awaitChild("ConfigMap", name)
	}
	e.remove(widget, "b")
	e.awaitCall(0, func(call *hookCall) bool { return call.Finalizing })
	e.hook.CloseClientConnections()
	e.hook.Close()
	e.remove(composite, e.name)
	e.awaitGone(composite, e.name)
	e.awaitChild(widget, "a", finalizers("example.com/other"))
	if b := e.look(widget, "b"); b != nil {
		e.awaitChild(widget, "b", finalizers("example.com/other"))
		e.change(widget, "b", "{metadata: {finalizers: null}}")
	}
	if e.look("ConfigMap", "a") == nil {
		t.Error("a child was deleted with the CompositeController, but its parent was not")
	}
	for _, reason := range []string{"Stopping", "Stopped"} {
		e.awaitEventOn(cc, reason, e.name)
	}
	e.change(widget, "a", "{metadata: {finalizers: null}}")
}

func TestCompositeDeleteAcrossRestart(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	e.hook.Answers(clearsAway)
	stop := e.run(&faultproxy.Journal{})
	e.serves(finalized)
	e.parent("web")
	e.awaitChild(widget, "web", finalizers(e.finalizer()))
	stop()
	e.remove(composite, e.name)
	e.remove(widget, "web")
	if e.look(composite, e.name) == nil || e.look(widget, "web") == nil {
		t.Fatal("an object with a finalizer is gone while no engine runs")
	}
	e.run(&faultproxy.Journal{})
	e.awaitGone(composite, e.name)
	e.awaitGone(widget, "web")
}

func TestCompositeFinalizeNamespace(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(clearsAway)
	e.serves(finalized)
	for _, name := range []string{"a", "b", "c"} {
		e.parent(name)
		e.awaitChild("ConfigMap", name)
	}
	e.beginDeletion(e.namespace)
	e.awaitGone("Namespace", e.namespace)
}
