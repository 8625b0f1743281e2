// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
)

// Event reasons.
const (
	eventSyncError = "SyncError"
	eventCreated   = "ChildrenCreated"
	eventUpdated   = "ChildrenUpdated"
	eventRecreated = "ChildrenRecreated"
	eventDeleted   = "ChildrenDeleted"
	eventStuck     = "ChildrenStuck"
	// eventStatusStuck is likewise of the parent's status.
	eventStatusStuck = "StatusStuck"
)

// Event reasons on a CompositeController.
const (
	eventStarting    = "Starting"
	eventStarted     = "Started"
	eventStopping    = "Stopping"
	eventStopped     = "Stopped"
	eventCreateError = "CreateError"
)

// maxMessage is the longest message of an event, in bytes.
const maxMessage = 1024

// event on a parent.
type event struct{ eventType, reason, message string }

// outcome is what has become of a child in one sync.
type outcome struct {
	// reason is one of the event reasons, or ErrResourceExists where an object of its name exists and is not the parent's.
	reason string
	child  childKey
}

// outcomeOf a step that was done.
func outcomeOf(s childStep) outcome {
	reason := map[verb]string{verbCreate: eventCreated, verbUpdate: eventUpdated, verbRecreate: eventRecreated, verbDelete: eventDeleted}[s.verb]
	return outcome{reason, s.child}
}

// texts of events, with what happened to whom.
var texts = map[string]string{
	eventCreated:                    "Created %s",
	eventUpdated:                    "Updated %s",
	eventRecreated:                  "Deleted %s, to be created anew as desired",
	eventDeleted:                    "Deleted %s",
	eventStuck:                      "Changes do not last, or the API server does not take them: %s",
	controller.ReasonResourceExists: "Not created, because an object of that name exists and does not belong to this parent: %s",
}

// maxNames is how many children an event names.
const maxNames = 10

// eventsOf sums up what has become of children: one event for each reason and kind.
func eventsOf(outcomes []outcome) (events []event) {
	sorted := slices.Clone(outcomes)
	slices.SortStableFunc(sorted, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.reason, b.reason), cmp.Compare(a.child.group, b.child.group), cmp.Compare(a.child.kind, b.child.kind))
	})
	for len(sorted) > 0 {
		first := sorted[0]
		n := slices.IndexFunc(sorted, func(o outcome) bool {
			return o.reason != first.reason || o.child.group != first.child.group || o.child.kind != first.child.kind
		})
		if n < 0 {
			n = len(sorted)
		}
		eventType := corev1.EventTypeNormal
		if first.reason == eventStuck || first.reason == controller.ReasonResourceExists {
			eventType = corev1.EventTypeWarning
		}
		events = append(events, event{eventType, first.reason, fmt.Sprintf(texts[first.reason], listed(sorted[:n]))})
		sorted = sorted[n:]
	}
	return events
}

// listed names the children of one kind: "ConfigMap a", "3 ConfigMap: a, b, c".
func listed(outcomes []outcome) string {
	kind := outcomes[0].child.kind
	var names []string
	for _, o := range outcomes[:min(len(outcomes), maxNames)] {
		names = append(names, strings.TrimPrefix(o.child.String(), kind+" "))
	}
	if len(outcomes) == 1 {
		return kind + " " + names[0]
	}
	text := fmt.Sprintf("%d %s: %s", len(outcomes), kind, strings.Join(names, ", "))
	if more := len(outcomes) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// warnings are the events of what does not last, or never comes to an end.
func (p *plan) warnings() (events []event) {
	if p.restless != nil {
		events = append(events, event{corev1.EventTypeWarning, p.restless.reason, p.restless.message})
	}
	if p.statusStuck {
		events = append(events, event{corev1.EventTypeWarning, eventStatusStuck,
			"The status does not last: another client changes it each time that it is written. It is written ever more rarely"})
	}
	return events
}

// syncError is the event of a sync that failed.
func syncError(err error) event {
	return event{corev1.EventTypeWarning, eventSyncError, controller.Truncate("Sync error: "+hook.Message(err), maxMessage)}
}
