// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/faultproxy"
)

func TestParentsAreSyncedAgainAfterTheResyncPeriod(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	e.serves(configMaps + "\nresyncPeriodSeconds: 1\n")
	names := []string{"a", "b", "c"}
	for _, name := range names {
		e.parent(name)
		e.awaitChild(widget, name, has(1, "status", "seen"))
	}
	begin := len(e.hook.Calls())
	time.Sleep(4 * time.Second)
	counts := map[string]int{}
	for _, call := range e.hook.Calls()[begin:] {
		counts[call.name()]++
	}
	for _, name := range names {
		if counts[name] < 3 || counts[name] > 6 {
			t.Errorf("in 4 s %s was synced %d times", name, counts[name])
		}
	}
}

func TestAHookSaysWhenItWantsToBeAskedAgain(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(func(call *hookCall) any {
		answer := oneConfigMap(call).(tree)
		answer["resyncAfterSeconds"] = 0.7
		return answer
	})
	e.serves(configMaps)
	e.parent("web")
	e.awaitChild(widget, "web", has(1, "status", "seen"))
	time.Sleep(200 * time.Millisecond)
	begin := len(e.hook.Calls())
	time.Sleep(3 * time.Second)
	if calls := len(e.hook.Calls()) - begin; calls < 3 || calls > 5 {
		t.Errorf("in 3 s it was asked %d times", calls)
	}
	e.hook.Answers(oneConfigMap)
	time.Sleep(1500 * time.Millisecond)
	begin = len(e.hook.Calls())
	e.stays(1500*time.Millisecond, func() string {
		if len(e.hook.Calls()) > begin {
			return "it is asked again though it does not want to be any more"
		}
		return ""
	})
}

func TestNothingIsAskedWhileNothingHappens(t *testing.T) {
	e := inSharedEngine(t)
	e.hook.Answers(oneConfigMap)
	e.serves(configMaps)
	e.parent("web", "{spec: {selector: {matchLabels: {app: web}}}}")
	e.awaitChild(widget, "web", has(1, "status", "seen"))
	begin := e.calm()
	if begin > 4 { // at first, with the child, with the status
		t.Errorf("it took %d calls of the hook", begin)
	}
	// An object that concerns nobody.
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: stray, labels: {app: web}}}")
	e.stays(700*time.Millisecond, func() string {
		if len(e.hook.Calls()) > begin {
			return "the hook is called"
		}
		return ""
	})
}

func TestAChangeOfTheStatusAloneCanBeIgnored(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		t.Run(fmt.Sprintf("ignoreStatusChanges %t", ignore), func(t *testing.T) {
			e := inSharedEngine(t)
			e.hook.Says(tree{"status": tree{"said": true}})
			e.serves(fmt.Sprintf(`
generateSelector: true
parentResource: {apiVersion: test.example.com/v1, resource: widgets, ignoreStatusChanges: %t}
hooks: {sync: {webhook: {url: HOOK/sync}}}
`, ignore))
			e.parent("web")
			e.awaitChild(widget, "web", has(true, "status", "said"))
			calls := e.calm()
			e.change(widget, "web", "{status: {theirs: true}}", "status")
			time.Sleep(500 * time.Millisecond)
			if called := len(e.hook.Calls()) > calls; called == ignore {
				t.Errorf("the hook was called: %t", called)
			}
			for _, patch := range []string{"{spec: {a: b}}", "{metadata: {labels: {a: b}}}", "{metadata: {annotations: {a: b}}}"} {
				calls = len(e.hook.Calls())
				e.change(widget, "web", patch)
				e.awaitCall(calls, func(*hookCall) bool { return true })
			}
		})
	}
}

func TestANewParentTakesAsFewRequestsAsItCan(t *testing.T) {
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
	e.calm()
	want := map[string]int{"create configmaps": 1, "create events": 1}
	got := requestsFor(&journal, e.namespace)
	if writes := got["update widgets/status"]; writes < 1 || writes > 2 { // what the hook says of no child, and of one
		t.Errorf("%d status writes", writes)
	}
	delete(got, "update widgets/status")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	// A sync that changes nothing costs none, and one that changes the status that alone.
	before := len(journal.Entries())
	calls := len(e.hook.Calls())
	e.change(widget, "web", "{metadata: {annotations: {note: a}}}")
	e.awaitCall(calls, func(*hookCall) bool { return true })
	e.calm()
	for _, entry := range journal.Entries()[before:] {
		if entry.Namespace == e.namespace {
			t.Errorf("a sync that changes nothing sends %s", entry)
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
	e.calm()
	sent := slices.DeleteFunc(journal.Entries()[before:], func(entry faultproxy.Entry) bool { return entry.Namespace != e.namespace })
	if len(sent) != 1 || sent[0].Verb != "update" || sent[0].Subresource != "status" {
		t.Errorf("a new status takes %v", sent)
	}
}

// A new process finds everything as the old one left it.
func TestAnotherEngineWritesNothing(t *testing.T) {
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
			t.Errorf("the second engine sends %s", entry)
		}
	}
	e.remove(composite, e.name) // while there is an engine
	e.awaitGone(composite, e.name)
}
