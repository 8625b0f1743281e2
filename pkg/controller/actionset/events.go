// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
)

const (
	// maxEventMessage and maxEventReason are how many bytes of them an event has.
	maxEventMessage = 1 << 10
	maxEventReason  = 128
)

// recordEvent records an event on the ActionSet, or on a Blueprint if there is one of that name.
type recordEvent struct {
	blueprint, eventType, reason, message string
	// last: it reports how the run has ended, or what has failed. It is in the status until the next one, and gets lost in no crash.
	last bool
	// name is what the event's name ends with; "" is that it has none yet.
	name string
}

// bounded is the event with a message and a reason that are not too long.
func (e recordEvent) bounded() recordEvent {
	e.reason, e.message = shorten(e.reason, maxEventReason), shorten(e.message, maxEventMessage)
	return e
}

// recordNormal records an event on the ActionSet.
func (t *planner) recordNormal(reason, message string) {
	t.events = append(t.events, recordEvent{eventType: corev1.EventTypeNormal, reason: reason, message: message})
}

// recordWarning records a Warning on the ActionSet that is not to be lost.
func (t *planner) recordWarning(reason, message string) {
	t.events = append(t.events, warning(reason, message))
}

func warning(reason, message string) recordEvent {
	return recordEvent{eventType: corev1.EventTypeWarning, reason: reason, message: message, last: true}
}

// failureEvents are those of a failure of an action, on the ActionSet and on its Blueprint.
func failureEvents(action *v1alpha1.ActionSpec, message string) []recordEvent {
	on := warning("ActionSetFailed Action: "+action.Name, message)
	onBlueprint := on
	onBlueprint.blueprint = action.Blueprint
	return []recordEvent{on, onBlueprint}
}

// eventSteps are the steps that record the events.
func eventSteps(events []recordEvent) (steps []controller.Step) {
	for _, event := range events {
		steps = append(steps, event.bounded())
	}
	return steps
}

// lastEvent returns the last event of these that is not to be lost, as it is put into the status: without a name, which it gets when
// the status is written. It returns nil if there is none.
func lastEvent(events []recordEvent) (last *v1alpha1.RunEvent) {
	for _, event := range events {
		event = event.bounded()
		switch {
		case !event.last:
		case event.blueprint == "":
			last = &v1alpha1.RunEvent{Type: event.eventType, Reason: event.reason, Message: event.message}
		case last != nil && last.Reason == event.reason && last.Message == event.message:
			last.Blueprint = event.blueprint
		}
	}
	return last
}

// nameAfter is the name of the event that was recorded just after another one: a failure is recorded on the ActionSet and then on its
// Blueprint, which may have the same name, and two events cannot have.
func nameAfter(name string) string {
	nanoseconds, err := strconv.ParseInt(name, 16, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(nanoseconds+1, 16)
}

// repeatedEvents are the steps that record the last event once more, where this process does not know whether it was posted. Where it was,
// there is an event of its name. After some time it is not looked for any more, and may be gone.
func repeatedEvents(o observed) []controller.Step {
	if o.set.Status == nil || o.set.Status.LastEvent == nil || o.set.Status.LastEvent.Name == o.recordedEvent {
		return nil
	}
	if end := o.set.Status.CompletionTime; end != nil && o.now.Sub(end.Time) > cleanUpPeriod {
		return nil
	}
	last := o.set.Status.LastEvent
	event := recordEvent{eventType: last.Type, reason: last.Reason, message: last.Message, last: true, name: last.Name}
	steps := []controller.Step{event}
	if last.Blueprint != "" {
		event.blueprint, event.name = last.Blueprint, nameAfter(last.Name)
		steps = append(steps, event)
	}
	return steps
}
