// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// end tells what was done, brings the status up to date, and flips one switch at most.
func end(o *observed) []step {
	steps := outcomeEvents(o)
	status := nextStatus(o)
	if !equality.Semantic.DeepEqual(o.machine.Status, status) {
		steps = append(append(steps, writeStatus{status}), statusEvents(&o.machine.Status, &status)...)
	}
	if flip := status.Flip; flip != nil && !o.reservedGoes {
		steps = append(steps, flipSwitch{*flip}, normalEvent(eventFlipped, "Moved switch %s down", flip.Switch))
	}
	return steps
}

// nextStatus is what the status is to be, which includes the reservation of the flip that is made next.
func nextStatus(o *observed) v1alpha1.MachineStatus {
	status := *o.machine.Status.DeepCopy()
	status.ObservedGeneration = o.machine.Generation
	status.Replicas = int32(len(o.owned))
	status.Positions = positions(o.owned)
	status.Selector = ""
	if o.selector != nil {
		status.Selector = o.selector.String()
	}
	switch {
	case !leverIsUp(o.machine):
		status.SeenAt = nil
	case status.SeenAt == nil || isFuture(status.SeenAt, o.now):
		status.SeenAt = timeAt(o.now)
	}
	switch reservationOf(o) {
	case closedReservation:
		status.Flip, status.LastFlipTime = nil, timeAt(o.now)
	case noReservation:
		if isFuture(status.LastFlipTime, o.now) && len(pending(o)) > 0 {
			status.LastFlipTime = timeAt(o.now) // by a clock that went wrong: wait for one interval, and no longer
		}
		status.Flip = nextFlip(o, status.LastFlipTime)
	}
	value, reason, message := readiness(o)
	controller.SetCondition(&status.Conditions, o.now, o.machine.Generation, v1alpha1.ConditionReady, value, reason, message)
	return status
}

// positions has the first letter of each switch's position. The switches are sorted by name.
func positions(switches []*v1alpha1.Switch) string {
	var letters strings.Builder
	for _, sw := range switches {
		letter, size := utf8.DecodeRuneInString(sw.Spec.Position)
		if size == 0 {
			letter = '?'
		}
		letters.WriteRune(letter)
	}
	return letters.String()
}

// describeStatus is the status in a line, for logs.
func describeStatus(status v1alpha1.MachineStatus) string {
	var line strings.Builder
	fmt.Fprintf(&line, "%d %q", status.Replicas, status.Positions)
	for _, condition := range status.Conditions {
		fmt.Fprintf(&line, ", %s=%s %s", condition.Type, condition.Status, condition.Reason)
	}
	if status.SeenAt != nil {
		fmt.Fprintf(&line, ", lever seen %s", status.SeenAt.UTC().Format(time.TimeOnly))
	}
	if status.Flip != nil {
		fmt.Fprintf(&line, ", flip of %s", status.Flip.Switch)
	}
	if status.LastFlipTime != nil {
		fmt.Fprintf(&line, ", last flip %s", status.LastFlipTime.UTC().Format(time.TimeOnly))
	}
	return line.String()
}

// readiness is the Ready condition.
func readiness(o *observed) (value metav1.ConditionStatus, reason, message string) {
	current := meta.FindStatusCondition(o.machine.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case o.selector == nil:
		return metav1.ConditionFalse, v1alpha1.ReasonInvalidSelector, o.invalid
	case o.done.refusal != "":
		return metav1.ConditionFalse, v1alpha1.ReasonCreateFailed, o.done.refusal
	case missing(o) > 0 && hasReason(current, v1alpha1.ReasonCreateFailed):
		return current.Status, current.Reason, current.Message // there is no other answer yet
	case missing(o) != 0:
		return metav1.ConditionFalse, v1alpha1.ReasonScaling, fmt.Sprintf("%d of %d switches", len(o.owned), o.machine.Spec.Switches)
	case len(o.elders) > 0:
		return metav1.ConditionFalse, v1alpha1.ReasonSelectorOverlap, fmt.Sprintf("The selector also matches switches of Machine %s", listed(o.elders))
	default:
		return metav1.ConditionTrue, v1alpha1.ReasonComplete, ""
	}
}

// outcomeEvents tell what the stages before have done, one event for all of a kind.
func outcomeEvents(o *observed) (steps []step) {
	if o.done.leverMoved {
		steps = append(steps, normalEvent(eventFlipped, "Moved the lever down"))
	}
	for _, done := range []struct {
		switches       []string
		reason, format string
	}{
		{o.done.released, eventReleased, "Released, because the selector no longer matches: %s"},
		{o.done.adopted, eventAdopted, "Adopted: %s"},
		{o.done.created, eventCreated, "Created: %s"},
		{o.done.deleted, eventDeleted, "Deleted: %s"},
		{o.done.seen, eventSeenUp, "Seen: %s"},
	} {
		if len(done.switches) > 0 {
			steps = append(steps, normalEvent(done.reason, done.format, listed(slices.Sorted(slices.Values(done.switches)))))
		}
	}
	if len(o.strangers) > 0 {
		steps = append(steps, warning(eventNotOwned, "The selector matches what is not the Machine's, and is not counted: %s", listed(o.strangers)))
	}
	return steps
}

// statusEvents tell what is new in the status.
func statusEvents(old, status *v1alpha1.MachineStatus) (steps []step) {
	if old.SeenAt == nil && status.SeenAt != nil {
		steps = append(steps, normalEvent(eventSeenUp, "Seen: the lever is up"))
	}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if hasReason(meta.FindStatusCondition(old.Conditions, v1alpha1.ConditionReady), ready.Reason) {
		return steps
	}
	switch ready.Reason {
	case v1alpha1.ReasonCreateFailed:
		steps = append(steps, warning(eventCreateFailed, "%s", ready.Message))
	case v1alpha1.ReasonSelectorOverlap:
		steps = append(steps, warning(eventNotOwned, "%s", ready.Message))
	}
	return steps
}

func hasReason(condition *metav1.Condition, reason string) bool {
	return condition != nil && condition.Reason == reason
}

func normalEvent(reason, format string, args ...any) step {
	return recordEvent{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

func warning(reason, format string, args ...any) step {
	return recordEvent{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}
