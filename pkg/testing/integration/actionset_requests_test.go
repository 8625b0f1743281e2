// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/testing/faultproxy"
)

// asked are all requests but those by which caches are filled, in the order of their coming.
func asked(journal *faultproxy.Journal) (requests []string) {
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
	e.goes("first", "  phases: ["+creating("one")+"]\n") // from now on the process knows what the API server serves
	e.awaitEnd("first")
	e.hasEvents("first", "SA go", "SP one", "EP one", "UC")
	e.eventually(func() string { return cmp.Diff(1, len(e.greetings("first"))) })
	before := len(asked(&journal))

	e.blueprint("three", goPhases(creating("one"), creating("two"), creating("three")))
	e.actionSet("three")
	set := e.awaitEnd("three")
	e.hasEvents("three", "SA go", "SP one", "EP one", "SP two", "EP two", "SP three", "EP three", "UC")
	e.leavesNothing(set)
	process.stop()
	var work []string
	events := 0
	for _, request := range asked(&journal)[before:] {
		if strings.HasPrefix(request, "create events") {
			events++
			continue
		}
		work = append(work, request)
	}
	want := []string{
		"get namespaces",           // the subject
		"create secrets",           // the frozen run
		"update actionsets/status", // it has started, and the first phase is about to
		"create configmaps",
		"update actionsets/status", // it has ended, and the second is about to
		"create configmaps",
		"update actionsets/status",
		"create configmaps",
		"update actionsets/status", // all has ended
		"delete secrets",
	}
	if diff := cmp.Diff(want, work); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	// Eight of the ActionSet, and one by which the Blueprint is greeted.
	if events != 9 {
		t.Errorf("%d events were posted, want 9", events)
	}
}

// The Pod is watched: how often its status changes costs nothing.
func TestActionSetRequestsOfTask(t *testing.T) {
	e := newActionsEnv(t)
	held := newGate()
	e.startNode(map[string]program{"held": held.program})
	var journal faultproxy.Journal
	process := e.run(&journal)
	e.goes("task", "  phases: ["+task("task", "held")+"]\n")
	text := held.holds(e.env).log()
	e.eventually(func() string {
		if text.opened() == 0 {
			return "nobody has opened the log"
		}
		return ""
	})
	close(held.open)
	set := e.ends("task", "complete task=complete; 100%")
	e.hasEvents("task", "SA go", "SP task", "EP task", "UC")
	e.leavesNothing(set)
	process.stop()
	var work []string
	for _, request := range asked(&journal) {
		if request != "create events" {
			work = append(work, request)
		}
	}
	want := []string{
		"get namespaces",           // the subject
		"patch actionsets",         // the finalizer
		"create secrets",           // the frozen run
		"update actionsets/status", // a Pod of that name is about to be made
		"create pods",
		"update actionsets/status", // this Pod is about to go
		"patch pods",
		"get pods/log",             // while it runs
		"get pods/log",             // all of it, when it has ended
		"update actionsets/status", // all has ended
		"delete pods",
		"delete secrets",
		"patch actionsets",
	}
	if diff := cmp.Diff(want, work); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
