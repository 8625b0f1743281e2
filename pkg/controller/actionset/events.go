// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
)

const (
	// maxEventMessage and maxEventReason are the maximum lengths of the message and the reason of an event, in bytes.
	maxEventMessage = 1 << 10
	maxEventReason  = 128
	// maxEvents is the maximum number of events of one decision. The recorder has a queue of about two thousand for all objects of a lane, and drops what is
	// too much for it.
	maxEvents = 400
)

// recordEvent records an event on the ActionSet, or on the Blueprint of this name if there is one.
type recordEvent struct {
	blueprint, eventType, reason, message string
	// last: the event reports the end of the run, or a failure. It is in the status until the next one, so that no crash loses it.
	last bool
	// name is the last part of the event's name; "" if it has none yet.
	name string
}

// bounded returns the event with its message and reason shortened to the maximum lengths.
func (e recordEvent) bounded() recordEvent {
	e.reason, e.message = shorten(e.reason, maxEventReason), shorten(e.message, maxEventMessage)
	return e
}

// withoutMiddle returns the first and the last events, maxEvents in all.
func withoutMiddle(events []recordEvent) []recordEvent {
	if len(events) <= maxEvents {
		return events
	}
	return slices.Concat(events[:maxEvents/2], events[len(events)-maxEvents/2:])
}

// recordNormal records an event on the ActionSet.
func (t *planner) recordNormal(reason, message string) {
	t.events = append(t.events, recordEvent{eventType: corev1.EventTypeNormal, reason: reason, message: message})
}

// recordWarning records a Warning on the ActionSet that must not be lost.
func (t *planner) recordWarning(reason, message string) {
	t.events = append(t.events, warning(reason, message))
}

func warning(reason, message string) recordEvent {
	return recordEvent{eventType: corev1.EventTypeWarning, reason: reason, message: message, last: true}
}

// failureEvents returns the events of a failure of an action, on the ActionSet and on its Blueprint.
func failureEvents(action *v1alpha1.ActionSpec, message string) []recordEvent {
	on := warning("ActionSetFailed Action: "+action.Name, message)
	onBlueprint := on
	onBlueprint.blueprint = action.Blueprint
	return []recordEvent{on, onBlueprint}
}

// eventSteps returns the steps that record the events.
func eventSteps(events []recordEvent) (steps []controller.Step) {
	for _, event := range events {
		steps = append(steps, event.bounded())
	}
	return steps
}

// lastEvent returns the last of these events that must not be lost, for the status. Its name is added when the status is written. It returns nil
// if there is none.
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

// nameAfter returns the name of the event that was recorded just after another one. A failure is recorded on the ActionSet and then on its
// Blueprint. If both have the same name, the events need different ones.
func nameAfter(name string) string {
	nanoseconds, err := strconv.ParseInt(name, 16, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(nanoseconds+1, 16)
}

// repeatedEvents returns the steps that record the last event again if this process does not know whether it was posted. If it was posted, an
// event with its name exists. After cleanUpPeriod the event is not repeated, because the first one may have expired.
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
