// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
)

// decideFinished removes what an ended run has left.
func decideFinished(o observed) plan {
	t := newPlanner(o, o.snapshot, *o.set.Status)
	return planOf(append(append(repeatedEvents(o), t.cleanUpSteps()...), finishSteps(o)...)...)
}

func finishSteps(o observed) (steps []controller.Step) {
	if o.leftUnknown {
		return nil
	}
	if o.snapshot != nil || o.foreignSnapshot {
		steps = append(steps, deleteSnapshot{})
	}
	return append(steps, finalizerSteps(o, false)...)
}

// decideTerminating ends a run in a terminating namespace, or whose status cannot be written. Nothing can be recorded, so no deferPhase
// runs. What ended phases have left is removed, if that succeeds.
func decideTerminating(o observed) plan {
	var steps []controller.Step
	if hasStarted(o.set.Status) {
		steps = newPlanner(o, o.snapshot, *o.set.Status).cleanUpSteps()
		for _, key := range runningPhases(o.set.Status) {
			if step := (cancelPhase{key, true}); !o.round.Has(step.about()) {
				steps = append(steps, step)
			}
		}
	}
	if o.looksLeft {
		return planOf(steps...)
	}
	if o.snapshot != nil && !o.namespaceTerminating {
		steps = append(steps, deleteSnapshot{})
	}
	return planOf(append(steps, finalizerSteps(o, false)...)...)
}

// cleanUpSteps returns the clean-up of phases that have ended before or that end now. What was found of other phases may belong to a
// running phase: the status may be older than what was found.
func (t *planner) cleanUpSteps() (steps []controller.Step) {
	keys := slices.Clone(t.cleanUps)
	for _, key := range t.o.leftovers {
		if p := phaseIn(&t.status, key); p != nil && (p.State == v1alpha1.StateComplete || p.State == v1alpha1.StateFailed) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, phaseKey.compare)
	for _, key := range slices.Compact(keys) {
		if step := (cleanUp{key}); !t.o.round.Has(step.about()) {
			steps = append(steps, step)
		}
	}
	return steps
}

// finishRun ends the run when all actions have ended.
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

// recordCancel records that the run was cancelled, before anything is stopped.
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

// failSnapshotLost ends a run whose snapshot is lost. What the run has left is found by its labels.
func (t *planner) failSnapshotLost() {
	message := t.o.snapshotDamage
	if message == "" {
		message = fmt.Sprintf("Secret %s with the snapshot of the run was not found: the run cannot continue", snapshotName(t.o.set))
	}
	t.failRun(message)
}

// failRun ends a run that cannot continue.
func (t *planner) failRun(message string) {
	for _, key := range runningPhases(&t.status) {
		p := phaseIn(&t.status, key)
		p.State, p.CompletionTime = v1alpha1.StateFailed, t.seconds()
	}
	t.setFailure(v1alpha1.ReasonRunLost, message)
	t.recordWarning("Error", message)
	t.lost = true
}
