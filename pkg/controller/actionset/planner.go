// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
)

// planner builds the plan of a run: its next status, and the steps.
type planner struct {
	o        observed
	snapshot *snapshot
	status   v1alpha1.ActionSetStatus

	asks []controller.Ask
	// skipped are the phases that this plan knows nothing new about: they had their turn in this round, or there was no time for them.
	skipped                   []phaseKey
	events                    []recordEvent
	starts, cancels, cleanUps []phaseKey
	requeueAfter              time.Duration
	retry                     bool
	// again: there is more to decide after the status is written.
	again bool
	// sizeBound is at least the size of the ActionSet with the status, without messages of failures; 0 before it was determined. A run of a thousand
	// actions does not determine the size a thousand times.
	sizeBound int
	// lost: the run cannot continue.
	lost bool
}

func newPlanner(o observed, r *snapshot, status v1alpha1.ActionSetStatus) *planner {
	return &planner{o: o, snapshot: r, status: status}
}

// requeueAt requeues at a time, or earlier.
func (t *planner) requeueAt(at time.Time) { t.requeue(max(at.Sub(t.o.now), time.Millisecond)) }

func (t *planner) requeue(after time.Duration) {
	t.requeueAfter = controller.EarliestDelay(t.requeueAfter, after)
}

// ask asks, unless an earlier sync of this round has asked the same, or there is no time left for it. It reports whether it asks.
func (t *planner) ask(a roundPart) bool {
	if key := a.about(); t.o.outOfTime.Has(key.kind) || t.o.round.Has(key) {
		t.skipped = append(t.skipped, key.phaseKey)
		return false
	}
	t.asks = append(t.asks, a)
	return true
}

// plan returns the plan with everything that was decided.
func (t *planner) plan() plan {
	if len(t.asks) > 0 {
		return planAsking(t.asks...)
	}
	t.finishRun()
	t.summarize()
	ended := hasFinished(&t.status)
	p := planOf(repeatedEvents(t.o)...)
	p.RequeueAfter, p.Again, p.retry = t.requeueAfter, t.again, t.retry
	events := withoutMiddle(t.events)
	if last := lastEvent(events); last != nil {
		t.status.LastEvent = last
	}
	if !ended && t.snapshot != nil {
		p.Steps = append(p.Steps, finalizerSteps(t.o, t.snapshot.needsFinalizer())...)
	}
	if t.o.set.Status == nil || !equality.Semantic.DeepEqual(*t.o.set.Status, t.status) {
		p.Steps = append(p.Steps, writeStatus{t.status})
	}
	p.Steps = append(p.Steps, eventSteps(events)...)
	for _, key := range t.starts {
		p.Steps = append(p.Steps, startPhase{key})
	}
	for _, key := range t.cancels {
		p.Steps = append(p.Steps, cancelPhase{key: key})
	}
	p.Steps = append(p.Steps, t.cleanUpSteps()...)
	if ended {
		p.Steps = append(p.Steps, finishSteps(t.o)...)
	}
	return p
}

// seconds returns the current time without fractions of a second, as the API server stores it.
func (t *planner) seconds() *metav1.Time {
	now := metav1.NewTime(t.o.now.Truncate(time.Second))
	return &now
}
