// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/testing/faultproxy"
)

// requestsIn returns all requests but LISTs and WATCHes, in the order in which they were received.
func requestsIn(journal *faultproxy.Journal) (requests []string) {
	for _, entry := range journal.Entries() {
		if entry.Verb == "watch" || entry.Verb == "list" || entry.Resource == "" {
			continue
		}
		request := entry.Verb + " " + entry.Resource
		if entry.Subresource != "" {
			request += "/" + entry.Subresource
		}
		requests = append(requests, request)
	}
	return requests
}

func TestActionSetRequestsOfThreePhases(t *testing.T) {
	e := newActionsEnv(t)
	var journal faultproxy.Journal
	process := e.run(&journal)
	e.startRun("first", "  phases: ["+createPhase("one")+"]\n") // the process has asked for discovery once this run has ended
	e.awaitEnd("first")
	e.wantEvents("first", "SA go", "SP one", "EP one", "UC")
	e.eventually(func() string { return cmp.Diff(1, len(e.blueprintEvents("first"))) })
	before := len(requestsIn(&journal))

	e.blueprint("three", goPhases(createPhase("one"), createPhase("two"), createPhase("three")))
	e.actionSet("three")
	set := e.awaitEnd("three")
	e.wantEvents("three", "SA go", "SP one", "EP one", "SP two", "EP two", "SP three", "EP three", "UC")
	e.wantCleanUp(set)
	process.stop()
	var work []string
	events := 0
	for _, request := range requestsIn(&journal)[before:] {
		if strings.HasPrefix(request, "create events") {
			events++
			continue
		}
		work = append(work, request)
	}
	want := []string{
		"get blueprints",           // as it is, and not as the cache has it
		"get namespaces",           // the subject
		"create secrets",           // the snapshot
		"update actionsets/status", // the run has started, and the first phase is about to
		"create configmaps",
		"update actionsets/status", // the first phase has ended, and the second is about to start
		"create configmaps",
		"update actionsets/status",
		"create configmaps",
		"update actionsets/status", // the run has ended
		"delete secrets",
	}
	if diff := cmp.Diff(want, work); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	// Eight events on the ActionSet, and the event Added on the Blueprint.
	if events != 9 {
		t.Errorf("got %d events posted, want 9", events)
	}
}

// The operator watches the Pod, so changes of its status lead to no requests.
func TestActionSetRequestsOfTask(t *testing.T) {
	e := newActionsEnv(t)
	held := newGate()
	e.startNode(map[string]program{"held": held.program})
	var journal faultproxy.Journal
	process := e.run(&journal)
	e.startRun("task", "  phases: ["+taskPhase("task", "held")+"]\n")
	text := held.await(e.env).log()
	e.eventually(func() string {
		if text.opened() == 0 {
			return "the operator has not opened the log"
		}
		return ""
	})
	close(held.open)
	set := e.wantEnd("task", "complete task=complete; 100%")
	e.wantEvents("task", "SA go", "SP task", "EP task", "UC")
	e.wantCleanUp(set)
	process.stop()
	var work []string
	for _, request := range requestsIn(&journal) {
		if request != "create events" {
			work = append(work, request)
		}
	}
	want := []string{
		"get blueprints",           // as it is, and not as the cache has it
		"get namespaces",           // the subject
		"patch actionsets",         // the finalizer
		"create secrets",           // the snapshot
		"update actionsets/status", // a Pod of that name is about to be created
		"create pods",
		"update actionsets/status", // the scheduling gate of this Pod is about to be removed
		"patch pods",
		"get pods/log",             // while the Pod runs
		"get pods/log",             // the whole log, after the Pod has ended
		"update actionsets/status", // the run has ended
		"delete pods",
		"delete secrets",
		"patch actionsets",
	}
	// The watch begins before the Pod is released. If its first list takes longer, the Pod is read once.
	if released := slices.Index(work, "patch pods"); released >= 0 && slices.Index(work, "get pods") == released+1 {
		work = slices.Delete(work, released+1, released+2)
	}
	ofPods := journal.Select(func(e faultproxy.Entry) bool {
		return e.Resource == "pods" && slices.Contains([]string{"list", "watch", "patch"}, e.Verb)
	})
	if len(ofPods) == 0 || ofPods[0].Verb == "patch" {
		t.Error("the Pod is released before its namespace is watched")
	}
	if diff := cmp.Diff(want, work); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
