// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// waitTest is a run whose first phase waits for something.
type waitTest struct {
	*testing.T
	o      observed
	memory memory
	writes int
}

func newWaitTest(t *testing.T) *waitTest {
	w := &waitTest{T: t, o: inRun(t, "KubeTask", statusWith("running", "pending", "pending"))}
	w.o.waiting = map[phaseKey]phaseWait{}
	return w
}

// see decides what comes next, and returns the message of the condition Progressing.
func (w *waitTest) see(what phase.Waiting) string {
	w.Helper()
	key := phaseKey{0, 0}
	w.o.polled = map[phaseKey]phase.Observation{key: {State: phase.Running, Waiting: what}}
	w.memory.rememberWaiting(&w.o, key, what)
	if status := statusOf(decide(w.o)); status != nil {
		w.writes++
		w.o.set.Status = stored(w, status)
	}
	return meta.FindStatusCondition(w.o.set.Status.Conditions, v1alpha1.ConditionProgressing).Message
}

func (w *waitTest) pass(d time.Duration) { w.o.now = w.o.now.Add(d) }

func TestWaitingIsShownAfterDelay(t *testing.T) {
	w := newWaitTest(t)
	scheduled, ended := phase.Waiting{For: "Pod shop/x to be scheduled", Details: "Unschedulable: 0/1 nodes"}, phase.Waiting{For: "Pod shop/x to end"}
	if got := w.see(scheduled); got != "" || w.writes != 0 {
		t.Errorf("the message is %q immediately, after %d writes", got, w.writes)
	}
	if again := decide(w.o).RequeueAfter; again <= 0 || again > waitingShownAfter {
		t.Errorf("it is looked at again after %s", again)
	}
	w.pass(waitingShownAfter)
	const want = "phase one waits for Pod shop/x to be scheduled since 2026-11-20T12:00:00Z: Unschedulable: 0/1 nodes"
	if got := w.see(scheduled); got != want {
		t.Errorf("the message is\n%q, want\n%q", got, want)
	}
	// However often it is looked at, and whatever its details: there is no other write.
	for i := range 100 {
		w.pass(time.Minute)
		if got := w.see(phase.Waiting{For: scheduled.For, Details: fmt.Sprint(i)}); got != want || w.writes != 1 {
			t.Fatalf("after %d writes the message is %q", w.writes, got)
		}
	}
	// Another process knows since when.
	w.memory = memory{}
	if got := w.see(scheduled); got != want || w.writes != 1 {
		t.Errorf("the next process writes %d times, and shows %q", w.writes, got)
	}
	// Something else that is quick is not shown, and what takes long is.
	w.see(phase.Waiting{For: "Pod shop/x to start on node n"})
	w.see(ended)
	w.pass(waitingShownAfter)
	if got := w.see(ended); !strings.HasPrefix(got, "phase one waits for Pod shop/x to end since 2026-11-20T13:40:10Z") || w.writes != 2 {
		t.Errorf("after %d writes the message is %q", w.writes, got)
	}
}

func TestWaitingLines(t *testing.T) {
	o := inRun(t, "KubeTask", statusWith("failed", "pending", "running"))
	o.waiting = map[phaseKey]phaseWait{}
	key := phaseKey{0, phase.Deferred}
	what := phase.Waiting{For: "Pod shop/x to end", Details: "line one\n line two " + strings.Repeat("x", 1000)}
	o.polled[key] = phase.Observation{State: phase.Running, Waiting: what}
	var m memory
	m.rememberWaiting(&o, key, what)
	o.now = o.now.Add(waitingShownAfter)
	status := statusOf(decide(o))
	progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing)
	if want := "phase one failed: it failed\ndeferPhase d waits for Pod shop/x to end since 2026-11-20T12:00:00Z: line one line two xxx"; !strings.HasPrefix(progressing.Message, want) ||
		progressing.Reason != v1alpha1.ReasonPhaseFailed || len(progressing.Message) > 500 {
		t.Errorf("Progressing is %s: %s", progressing.Reason, progressing.Message)
	}
	o.set.Status = stored(t, status)
	o.polled[key] = phase.Observation{State: phase.Succeeded}
	for _, condition := range statusOf(decide(o)).Conditions {
		if strings.Contains(condition.Message, "waits for") {
			t.Errorf("%s has in the end the message %s", condition.Type, condition.Message)
		}
	}
}

func TestWaitingShowsError(t *testing.T) {
	of := waitingForRetry(errors.New("the webhook fails"))
	for name, state := range map[string]string{"prepared": "pending", "polled": "running"} {
		o := inRun(t, "KubeOps", statusWith(state, "pending", "pending"))
		o.waiting = map[phaseKey]phaseWait{}
		o.prepared[phaseKey{0, 0}] = preparation{lookupResult: lookupResult{retry: true, waiting: of}}
		o.polled[phaseKey{0, 0}] = phase.Observation{Waiting: of}
		var m memory
		m.rememberWaiting(&o, phaseKey{0, 0}, of)
		if p := decide(o); statusOf(p) != nil || !p.retry {
			t.Errorf("%s: it is written immediately: %q", name, texts(p))
		}
		o.now = o.now.Add(waitingShownAfter)
		status := statusOf(decide(o))
		if status == nil {
			t.Fatalf("%s: nothing is written", name)
		}
		progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing)
		if want := "phase one waits for a request to succeed since 2026-11-20T12:00:00Z: the webhook fails"; progressing.Message != want {
			t.Errorf("%s: the message is %q", name, progressing.Message)
		}
	}
}

func TestWaitingForAPIGroup(t *testing.T) {
	waits := phase.Waiting{For: "the API group g.example.com to be available", Details: "no endpoints"}
	err := fmt.Errorf("looking for the resource of kind Gadget: %w", &phase.WaitError{Waiting: waits})
	if found := waitingForRetry(err); found != waits {
		t.Errorf("the phase waits for %+v", found)
	}
	s := &syncer{}
	if result := s.resultOf("preparing phase 0.0", err); !result.retry || result.failure != "" || result.waiting != waits || s.problem == nil {
		t.Errorf("the result is %+v, the problem %v", result, s.problem)
	}
}

func TestWaitingLinesOfSeveralActions(t *testing.T) {
	status := &v1alpha1.ActionSetStatus{Actions: []v1alpha1.ActionStatus{
		{Phases: []v1alpha1.Phase{{Name: "count"}}}, {Phases: []v1alpha1.Phase{{Name: "count"}}, DeferPhase: v1alpha1.Phase{Name: "count"}},
	}}
	seen := map[string]bool{}
	for _, key := range []phaseKey{{0, 0}, {1, 0}, {1, phase.Deferred}} {
		seen[waitingPrefix(status, key)] = true
	}
	if len(seen) != 3 {
		t.Errorf("they are %v", seen)
	}
}
