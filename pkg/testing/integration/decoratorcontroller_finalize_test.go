// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"
	"time"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

func TestDecoratorFinalizeOnDeletion(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(detaches)
	e.decorates(alsoFinalized(widgets))
	e.parent("web", "{metadata: {finalizers: [example.com/watch]}}")
	e.awaitChild("ConfigMap", "web")
	if first := e.hook.Calls()[0]; !strings.Contains(string(first.body), e.mark()) {
		t.Error("the first call shows the target without the finalizer")
	}
	e.awaitChild(widget, "web", finalizers("example.com/watch", e.mark()))
	e.remove(widget, "web")
	e.awaitGone("ConfigMap", "web")
	e.awaitChild(widget, "web", finalizers("example.com/watch"))
	calls := e.hook.CallsOf("/finalize")
	if first := calls[0]; !first.Finalizing || first.Object["metadata"].(tree)["deletionTimestamp"] == nil || len(first.Attachments["ConfigMap.v1"]) != 1 {
		t.Errorf("first call of finalize: got finalizing %t and %v", first.Finalizing, first.Object)
	}
	if last := calls[len(calls)-1]; len(last.Attachments["ConfigMap.v1"]) != 0 {
		t.Errorf("last call of finalize: got attachments %v, want none", last.Attachments)
	}
	e.change(widget, "web", "{metadata: {finalizers: null}}")
	e.awaitGone(widget, "web")
}

func TestDecoratorFinalizeOnOptOut(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(func(call *hookCall) any {
		answer := detaches(call).(tree)
		answer["labels"] = tree{"decorated": "yes"}
		if call.Finalizing {
			answer["labels"] = tree{"decorated": nil}
		}
		return answer
	})
	e.decorates(alsoFinalized(strings.Replace(widgets, "resource: widgets", "resource: widgets, annotationSelector: {matchAnnotations: {decorate: please}}", 1)))
	e.parent("web", "{metadata: {annotations: {decorate: please}}}")
	e.awaitChild("ConfigMap", "web")
	e.awaitChild(widget, "web", has("yes", "metadata", "labels", "decorated"), finalizers(e.mark()))
	e.change(widget, "web", "{metadata: {annotations: {decorate: null}}}")
	e.awaitGone("ConfigMap", "web")
	e.awaitChild(widget, "web", finalizers(), has(nil, "metadata", "labels", "decorated"))
	if call := e.hook.CallsOf("/finalize")[0]; !call.Finalizing || call.Object["metadata"].(tree)["deletionTimestamp"] != nil {
		t.Errorf("call of finalize: got finalizing %t, want true and no deletionTimestamp", call.Finalizing)
	}
	calls := e.calm()
	e.change(widget, "web", "{spec: {a: b}}")
	e.stays(300*time.Millisecond, func() string {
		if len(e.hook.Calls()) > calls {
			return "a hook was called for an object that is not selected any more"
		}
		return ""
	})
	e.change(widget, "web", "{metadata: {annotations: {decorate: please}}}")
	e.awaitChild("ConfigMap", "web")
	e.awaitChild(widget, "web", has("yes", "metadata", "labels", "decorated"), finalizers(e.mark()))
	e.remove(widget, "web")
	e.awaitGone(widget, "web")
}

// Metacontroller obeys finalized in the answer of sync, too, and then adds and removes the finalizer without end.
func TestDecoratorFinalizedInSyncResponse(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(func(call *hookCall) any { return tree{"labels": tree{"decorated": "yes"}, "finalized": true} })
	e.decorates(alsoFinalized(widgets))
	e.parent("web")
	e.awaitChild(widget, "web", has("yes", "metadata", "labels", "decorated"))
	version := e.look(widget, "web").GetResourceVersion()
	e.stays(time.Second, func() string {
		now := e.look(widget, "web")
		if now.GetResourceVersion() != version {
			return "the target was written"
		}
		return finalizers(e.mark())(now)
	})
	e.remove(widget, "web")
	e.awaitGone(widget, "web")
}

func TestDecoratorFinalizeHookOnly(t *testing.T) {
	e := decorating(t)
	e.hook.Says(tree{"finalized": true})
	e.decorates(`
resources: [{apiVersion: test.example.com/v1, resource: widgets}]
hooks: {finalize: {webhook: {url: HOOK/finalize}}}
`)
	target := e.parent("web")
	e.awaitChild(widget, "web", finalizers(e.mark()))
	e.awaitDecorator(v1alpha1.ReasonServing)
	if calls := e.hook.Calls(); len(calls) > 0 {
		t.Errorf("got %d calls of the hook for a target that stays, want none", len(calls))
	}
	if events := e.countEvents(target, "SyncError"); events > 0 {
		t.Errorf("got %d events SyncError, want none", events)
	}
	e.remove(widget, "web")
	e.awaitGone(widget, "web")
}

func TestDecoratorDeleteRemovesFinalizers(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(detaches)
	dc := e.decorates(alsoFinalized(strings.Replace(widgets, "resources: [", "resources: [{apiVersion: v1, resource: services}, ", 1)))
	e.put("{apiVersion: v1, kind: Service, metadata: {name: front, labels: {%s: %s}}, spec: {ports: [{port: 80}]}}", testLabel, e.namespace)
	e.parent("web", "{metadata: {finalizers: [example.com/other]}}")
	e.awaitChild(widget, "web", finalizers("example.com/other", e.mark()))
	e.awaitChild("Service", "front", finalizers(e.mark()))
	for _, name := range []string{"web", "front"} {
		e.awaitChild("ConfigMap", name)
	}
	e.hook.CloseClientConnections()
	e.hook.Close()
	e.remove(decorator, e.name)
	e.awaitGone(decorator, e.name)
	// When the DecoratorController is gone, so are its finalizers: there is no moment in which only they are left.
	for kind, want := range map[string][]string{widget: {"example.com/other"}, "Service": nil} {
		if complaint := finalizers(want...)(e.look(kind, map[string]string{widget: "web", "Service": "front"}[kind])); complaint != "" {
			t.Error(complaint)
		}
	}
	for _, name := range []string{"web", "front"} {
		if e.look("ConfigMap", name) == nil {
			t.Errorf("the attachment %s was deleted with the DecoratorController, but its target was not", name)
		}
	}
	for _, reason := range []string{"Stopping", "Stopped"} {
		e.awaitEventOn(dc, reason, e.name)
	}
	e.change(widget, "web", "{metadata: {finalizers: null}}")
}

// No finalizer is left when the spec does not need it any more, whether an engine observes that or not.
func TestDecoratorFinalizersGoWithSpec(t *testing.T) {
	t.Parallel()
	for name, patch := range map[string]string{
		"no finalize hook": "{spec: {hooks: {finalize: null}}}",
		"another type":     "{spec: {resources: [{apiVersion: v1, resource: services, labelSelector: {matchLabels: {none: of-these}}}]}}",
	} {
		for _, offline := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", offline"}[offline], func(t *testing.T) {
				t.Parallel()
				e := newDecoratorEnv(t)
				e.hook.Answers(detaches)
				stop := e.run(&faultproxy.Journal{})
				e.decorates(alsoFinalized(widgets))
				for _, target := range []string{"a", "b"} {
					e.parent(target)
					e.awaitChild(widget, target, finalizers(e.mark()))
				}
				if offline {
					stop()
				}
				e.change(decorator, e.name, patch)
				if offline {
					e.run(&faultproxy.Journal{})
				}
				for _, target := range []string{"a", "b"} {
					e.awaitChild(widget, target, finalizers())
				}
				e.awaitDecorator(v1alpha1.ReasonServing)
				e.remove(decorator, e.name) // while an engine runs
				e.awaitGone(decorator, e.name)
			})
		}
	}
}

func TestDecoratorDeleteAcrossRestart(t *testing.T) {
	t.Parallel()
	e := newDecoratorEnv(t)
	e.hook.Answers(detaches)
	stop := e.run(&faultproxy.Journal{})
	e.decorates(alsoFinalized(widgets))
	e.parent("web")
	e.awaitChild(widget, "web", finalizers(e.mark()))
	stop()
	e.remove(decorator, e.name)
	e.remove(widget, "web")
	if e.look(decorator, e.name) == nil || e.look(widget, "web") == nil {
		t.Fatal("an object with a finalizer is gone while no engine runs")
	}
	e.run(&faultproxy.Journal{})
	e.awaitGone(decorator, e.name)
	e.awaitGone(widget, "web")
}

// The targets of a Namespace that is deleted are finalized, so that it goes.
func TestDecoratorFinalizeNamespace(t *testing.T) {
	e := decorating(t)
	e.hook.Answers(detaches)
	e.decorates(alsoFinalized(widgets))
	for _, name := range []string{"a", "b", "c"} {
		e.parent(name)
		e.awaitChild("ConfigMap", name)
	}
	e.beginDeletion(e.namespace)
	e.awaitGone("Namespace", e.namespace)
}
