// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// turn is a decision in the making: the status as it is to be, and what to do beside.
type planner struct {
	o      observed
	snapshot    *snapshot
	status v1alpha1.ActionSetStatus

	asks                      []ask
	events                    []recordEvent
	starts, cancels, cleanUps []phaseKey
	requeueAfter              time.Duration
	retry                   bool
	// again: there is more to decide when the status is written.
	again bool
	// lost: nobody knows the rest of the run any more.
	lost bool
}

func newPlanner(o observed, r *snapshot, status v1alpha1.ActionSetStatus) *planner {
	return &planner{o: o, snapshot: r, status: status}
}

// requeueAt asks to look again then, or earlier.
func (t *planner) requeueAt(at time.Time) { t.requeue(max(at.Sub(t.o.now), time.Millisecond)) }

func (t *planner) requeue(after time.Duration) {
	if t.requeueAfter == 0 || after < t.requeueAfter {
		t.requeueAfter = after
	}
}

// plan of all that was decided.
func (t *planner) plan() plan {
	if len(t.asks) > 0 {
		return plan{asks: t.asks}
	}
	t.finishRun()
	t.summarize()
	ended := hasFinished(&t.status)
	p := plan{steps: repeatedEvents(t.o), requeueAfter: t.requeueAfter, retry: t.retry, again: t.again}
	if last := lastEvent(t.events); last != nil {
		t.status.LastEvent = last
	}
	if !ended {
		p.steps = append(p.steps, finalizerSteps(t.o, t.snapshot.needsFinalizer())...)
	}
	if t.o.set.Status == nil || !equality.Semantic.DeepEqual(*t.o.set.Status, t.status) {
		p.steps = append(p.steps, writeStatus{t.status})
	}
	p.steps = append(p.steps, eventSteps(t.events)...)
	for _, key := range t.starts {
		p.steps = append(p.steps, startPhase{key})
	}
	for _, key := range t.cancels {
		p.steps = append(p.steps, cancelPhase{key: key})
	}
	p.steps = append(p.steps, t.cleanUpSteps()...)
	if ended {
		p.steps = append(p.steps, finishSteps(t.o)...)
	}
	return p
}

// cleanUpSteps are for what was found of phases that have ended, and for those that end now. What is found of others may be of a
// phase that runs: the status may be older than what was found.
func (t *planner) cleanUpSteps() (steps []step) {
	keys := slices.Clone(t.cleanUps)
	for _, key := range t.o.leftovers {
		if p := phaseIn(&t.status, key); p != nil && (p.State == v1alpha1.StateComplete || p.State == v1alpha1.StateFailed) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b phaseKey) int { return cmp.Or(a.action-b.action, a.phase-b.phase) })
	for _, key := range slices.Compact(keys) {
		steps = append(steps, cleanUp{key})
	}
	return steps
}

// finish ends the run when all actions have ended.
func (t *planner) finishRun() {
	for i := range t.status.Actions {
		if _, more := t.current(i); more && !t.lost {
			return
		}
	}
	t.status.CompletionTime = t.seconds()
	if t.status.State == v1alpha1.StateFailed {
		t.endCondition(v1alpha1.ConditionFailed)
		return
	}
	t.status.State = v1alpha1.StateComplete
	t.endCondition(v1alpha1.ConditionComplete)
	t.events = append(t.events, recordEvent{
		eventType: corev1.EventTypeNormal, reason: "Update Complete", message: fmt.Sprintf("Updated ActionSet '%s' Status->complete", t.o.set.Name), last: true,
	})
}

// noticeCancel records that somebody wants the run to end, before anything is stopped.
func (t *planner) recordCancel() {
	if t.cancelled() {
		return
	}
	var reason string
	switch {
	case t.o.set.DeletionTimestamp != nil:
		reason = v1alpha1.ReasonDeleted
	case t.o.set.Spec != nil && t.o.set.Spec.Cancel:
		reason = v1alpha1.ReasonCancelRequested
	default:
		return
	}
	t.setCondition(v1alpha1.ConditionCancelled, metav1.ConditionTrue, reason, cancelMessage(reason))
	t.recordWarning("Cancelled", cancelMessage(reason))
	t.setFailure(reason, cancelMessage(reason))
}

// loseRun ends a run that nobody knows any more. What it has left is found by its labels.
func (t *planner) failSnapshotLost() {
	message := t.o.snapshotDamage
	if message == "" {
		message = fmt.Sprintf("Secret %s with the frozen run is gone: nothing of the rest can be run", snapshotName(t.o.set))
	}
	t.failRun(message)
}

// lose ends a run of which nothing more can be done.
func (t *planner) failRun(message string) {
	for _, key := range runningPhases(&t.status) {
		p := phaseIn(&t.status, key)
		p.State, p.CompletionTime = v1alpha1.StateFailed, t.seconds()
	}
	t.setFailure(v1alpha1.ReasonRunLost, message)
	t.recordWarning("Error", message)
	t.lost = true
}

func (t *planner) seconds() *metav1.Time {
	now := metav1.NewTime(t.o.now.Truncate(time.Second))
	return &now
}
