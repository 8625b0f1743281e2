// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package machine

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

// Event reasons.
const (
	eventSeenUp       = "SeenUp"
	eventFlipped      = "Flipped"
	eventCreated      = "SwitchCreated"
	eventDeleted      = "SwitchDeleted"
	eventReleased     = "Released"
	eventAdopted      = "Adopted"
	eventNotOwned     = "SwitchNotOwned"
	eventCreateFailed = "FailedCreate"
)

// progressEvents returns the events that report what this sync has done, one for all switches of a kind of change.
func progressEvents(o *observed) (steps []controller.Step) {
	if o.progress.leverMoved {
		steps = append(steps, controller.NormalEvent(eventFlipped, "Moved the lever down"))
	}
	for _, change := range []struct {
		switches       []string
		reason, format string
	}{
		{o.progress.released, eventReleased, "Released, because the selector no longer matches: %s"},
		{o.progress.adopted, eventAdopted, "Adopted: %s"},
		{o.progress.created, eventCreated, "Created: %s"},
		{o.progress.deleted, eventDeleted, "Deleted: %s"},
		{o.progress.seen, eventSeenUp, "Seen: %s"},
	} {
		if len(change.switches) > 0 {
			steps = append(steps, controller.NormalEvent(change.reason, change.format, listed(slices.Sorted(slices.Values(change.switches)))))
		}
	}
	if len(o.foreign) > 0 {
		steps = append(steps, controller.WarningEvent(eventNotOwned, "The selector matches what is not the Machine's, and is not counted: %s", listed(o.foreign)))
	}
	return steps
}

// flippedEvent returns the event that follows the flip.
func flippedEvent(flip *v1alpha1.Flip) controller.Step {
	return controller.NormalEvent(eventFlipped, "Moved switch %s down", flip.Switch)
}

// statusEvents returns the events that report what is new in the status.
func statusEvents(old, status *v1alpha1.MachineStatus) (steps []controller.Step) {
	if old.SeenAt == nil && status.SeenAt != nil {
		steps = append(steps, controller.NormalEvent(eventSeenUp, "Seen: the lever is up"))
	}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if hasReason(meta.FindStatusCondition(old.Conditions, v1alpha1.ConditionReady), ready.Reason) {
		return steps
	}
	switch ready.Reason {
	case v1alpha1.ReasonCreateFailed:
		steps = append(steps, controller.WarningEvent(eventCreateFailed, "%s", ready.Message))
	case v1alpha1.ReasonSelectorOverlap:
		steps = append(steps, controller.WarningEvent(eventNotOwned, "%s", ready.Message))
	}
	return steps
}
