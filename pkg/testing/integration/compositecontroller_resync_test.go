// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// checkGaps checks that no call comes early. On a busy machine calls are late.
func checkGaps(t *testing.T, calls []*hookCall, often time.Duration) {
	t.Helper()
	var between []time.Duration
	for i := range calls[1:] {
		between = append(between, calls[i+1].at.Sub(calls[i].at))
	}
	if shortest := slices.Min(between); shortest < often*85/100 {
		t.Errorf("time between calls: got %s, want %s at least", between, often)
	}
}

func TestCompositeResyncPeriod(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	e.serves(configMaps + "\nresyncPeriodSeconds: 1\n")
	names := []string{"a", "b", "c"}
	begin := map[string]int{}
	for _, name := range names {
		e.parent(name)
		e.awaitChild(widget, name, has(1, "status", "seen"))
		e.awaitShown(name)
		begin[name] = len(e.callsFor(name)) + 1 // earlier changes may still lead to one call
	}
	for _, name := range names {
		e.eventually(func() string {
			if calls := len(e.callsFor(name)); calls < begin[name]+4 {
				return fmt.Sprintf("got %d syncs of %s, want %d", calls, name, begin[name]+4)
			}
			return ""
		})
		checkGaps(t, e.callsFor(name)[begin[name]:], time.Second)
	}
}

func TestCompositeResyncAfter(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(call *hookCall) any {
		answer := oneConfigMap(call).(tree)
		answer["resyncAfterSeconds"] = 0.7
		return answer
	})
	e.serves(configMaps)
	e.parent("web")
	e.awaitChild(widget, "web", has(1, "status", "seen"))
	e.awaitShown("web")
	begin := len(e.hook.Calls()) + 1 // earlier changes may still lead to one call
	checkGaps(t, e.awaitCalls(begin + 4)[begin:], 700*time.Millisecond)

	var last atomic.Int32 // how often the hook has answered without resyncAfterSeconds
	e.hook.Answers(func(call *hookCall) any {
		last.Add(1)
		return oneConfigMap(call)
	})
	e.eventually(func() string {
		if last.Load() == 0 {
			return "the hook is not called again after resyncAfterSeconds"
		}
		return ""
	})
	e.stays(1500*time.Millisecond, func() string {
		if last.Load() > 1 {
			return "the hook was called again without resyncAfterSeconds"
		}
		return ""
	})
}

func TestCompositeIdle(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	e.serves(configMaps)
	create := func(names ...string) {
		t.Helper()
		for _, name := range names {
			e.parent(name, "{spec: {selector: {matchLabels: {app: web}}}}")
		}
		for _, name := range names {
			e.awaitChild(widget, name, has(1, "status", "seen"))
			e.awaitShown(name)
		}
	}
	create("first") // now the engine serves the CompositeController
	var names []string
	for i := range 20 { // it is random how soon the engine observes its own writes
		names = append(names, fmt.Sprint("web-", i))
	}
	create(names...)
	time.Sleep(time.Second)
	// An object that belongs to no parent. The same watch shows it and the child of the last parent: when that is observed, so is this.
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: stray, labels: {app: web}}}")
	create("last")
	time.Sleep(1500 * time.Millisecond) // the engine delays nothing for more than a second

	calls := map[string][]*hookCall{}
	for _, call := range e.hook.Calls() {
		calls[call.name()] = append(calls[call.name()], call)
	}
	delete(calls, "first")
	type unchanged struct {
		name  string
		after time.Duration
	}
	var again []unchanged
	var usual []time.Duration // until the next call, where something has changed
	for name, calls := range calls {
		// The parent and its child are created, and the status is written twice, with no child and with one.
		if len(calls) > 4 {
			t.Errorf("got %d calls of the hook for %s, want 4 at most", len(calls), name)
		}
		for i, call := range calls[1:] {
			before := calls[i]
			same := cmp.Equal(before.Parent, call.Parent) && cmp.Equal(before.Children, call.Children)
			if after := call.at.Sub(before.at); same {
				again = append(again, unchanged{name, after})
			} else {
				usual = append(usual, after)
			}
		}
	}
	// On a busy machine the watch may show a change after the engine has handled it. That is no later than other changes are handled.
	slices.Sort(usual)
	limit := max(700*time.Millisecond, 3*usual[len(usual)/2])
	again = slices.DeleteFunc(again, func(call unchanged) bool { return call.after <= limit })
	if len(again) > len(names)/2 {
		t.Errorf("the hook was called again with an unchanged request, after more than %s: %v", limit, again)
	}
}

func TestCompositeIgnoreStatusChanges(t *testing.T) {
	t.Parallel()
	for _, ignore := range []bool{false, true} {
		t.Run(fmt.Sprint(ignore), func(t *testing.T) {
			e := inSharedEngine(t)
			e.hook.Says(tree{"status": tree{"said": true}})
			e.serves(fmt.Sprintf(`
generateSelector: true
parentResource: {apiVersion: test.example.com/v1, resource: widgets, ignoreStatusChanges: %t}
hooks: {sync: {webhook: {url: HOOK/sync}}}
`, ignore))
			e.parent("web")
			e.awaitChild(widget, "web", has(true, "status", "said"))
			e.calm()
			shows := func(fields ...string) func(*hookCall) bool {
				return func(call *hookCall) bool {
					value, _, _ := unstructured.NestedFieldNoCopy(call.Parent, fields...)
					return call.name() == "web" && value == "theirs"
				}
			}
			e.change(widget, "web", "{status: {said: theirs}}", "status")
			if !ignore {
				e.awaitCall(0, shows("status", "said"))
			} else {
				e.parent("later") // observed after the change, by the same watch
				e.awaitCall(0, func(call *hookCall) bool { return call.name() == "later" })
				e.calm()
				if slices.ContainsFunc(e.hook.Calls(), shows("status", "said")) {
					t.Error("the hook was called for a change of the status")
				}
			}
			e.change(widget, "web", "{spec: {a: theirs}}")
			e.awaitCall(0, shows("spec", "a"))
			e.change(widget, "web", "{metadata: {labels: {a: theirs}}}")
			e.awaitCall(0, shows("metadata", "labels", "a"))
			e.change(widget, "web", "{metadata: {annotations: {a: theirs}}}")
			e.awaitCall(0, shows("metadata", "annotations", "a"))
		})
	}
}

func TestCompositeRequestsOfNewParent(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	var journal faultproxy.Journal
	e.run(&journal)
	e.hook.Answers(oneConfigMap)
	e.serves(configMaps)
	e.awaitReason(v1alpha1.ReasonServing)
	parent := e.parent("web", "{spec: {who: me}}")
	e.awaitChild(widget, "web", has(1, "status", "seen"))
	e.awaitEventOn(parent, "ChildrenCreated", "web")
	e.awaitShown("web")
	e.calm()
	want := map[string]int{"create configmaps": 1, "create events": 1}
	got := requestsFor(&journal, e.namespace)
	if writes := got["update widgets/status"]; writes < 1 || writes > 2 { // for no child, and for one
		t.Errorf("got %d status writes, want 1 or 2", writes)
	}
	delete(got, "update widgets/status")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	// A sync that changes nothing sends no requests, and one that changes the status sends one.
	before := len(journal.Entries())
	e.change(widget, "web", "{metadata: {annotations: {note: a}}}")
	e.awaitShown("web")
	e.calm()
	for _, entry := range journal.Entries()[before:] {
		if entry.Namespace == e.namespace {
			t.Errorf("sync that changes nothing: got %s, want no request", entry)
		}
	}
	before = len(journal.Entries())
	e.hook.Answers(func(call *hookCall) any {
		answer := oneConfigMap(call).(tree)
		answer["status"] = tree{"new": true}
		return answer
	})
	e.change(widget, "web", "{metadata: {annotations: {note: b}}}")
	e.awaitChild(widget, "web", has(true, "status", "new"))
	e.awaitShown("web")
	e.calm()
	sent := slices.DeleteFunc(journal.Entries()[before:], func(entry faultproxy.Entry) bool { return entry.Namespace != e.namespace })
	if len(sent) != 1 || sent[0].Verb != "update" || sent[0].Subresource != "status" {
		t.Errorf("sync that changes the status: got %v, want one update of the status", sent)
	}
}

// A new process finds everything as the old one has left it.
func TestCompositeRestartWritesNothing(t *testing.T) {
	t.Parallel()
	e := newEngineEnv(t)
	e.hook.Answers(clearsAway)
	stop := e.run(&faultproxy.Journal{})
	e.serves(finalized)
	for _, name := range []string{"a", "b"} {
		e.parent(name, "{spec: {who: me}}")
		e.awaitChild(widget, name, has(1, "status", "seen"))
	}
	e.awaitReason(v1alpha1.ReasonServing)
	stop()
	var journal faultproxy.Journal
	calls := len(e.hook.Calls())
	e.run(&journal)
	for _, name := range []string{"a", "b"} {
		e.awaitCall(calls, func(call *hookCall) bool { return call.name() == name })
	}
	e.parent("later")
	e.awaitChild(widget, "later", has(1, "status", "seen"))
	for _, entry := range journal.Entries() {
		if entry.IsWrite() && entry.Resource != "events" && (entry.Name == "a" || entry.Name == "b") {
			t.Errorf("second engine: got %s, want no write", entry)
		}
	}
	e.remove(composite, e.name) // while an engine runs
	e.awaitGone(composite, e.name)
}
