// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

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
	// eventStatusStuck is the same for the status of the parent.
	eventStatusStuck = "StatusStuck"
	// eventMetadataStuck is the same for the labels and annotations of a target.
	eventMetadataStuck = "MetadataStuck"
)

// MaxMessage is the longest message of an event or a condition, in bytes.
const MaxMessage = 1024

// childEvent is what happened to a child in one sync.
type childEvent struct {
	// reason is one of the event reasons, or ErrResourceExists if a foreign object has its name.
	reason string
	child  childKey
}

// childEventOf returns the event of a step that has succeeded.
func childEventOf(s childStep) childEvent {
	reason := map[verb]string{verbCreate: eventCreated, verbUpdate: eventUpdated, verbRecreate: eventRecreated, verbDelete: eventDeleted}[s.verb]
	return childEvent{reason, s.child}
}

// texts of events. %s names the children.
var texts = map[string]string{
	eventCreated:                    "Created %s",
	eventUpdated:                    "Updated %s",
	eventRecreated:                  "Deleted %s, to be created again as desired",
	eventDeleted:                    "Deleted %s",
	eventStuck:                      "Changes do not last, or the API server ignores them: %s",
	controller.ReasonResourceExists: "Not created, because an object of that name exists that this parent does not own: %s",
}

// maxNames is the number of children that an event names.
const maxNames = 10

// eventsOf sums up what happened to children in one event for each reason and kind.
func eventsOf(childEvents []childEvent) (events []controller.RecordEvent) {
	sorted := slices.Clone(childEvents)
	slices.SortStableFunc(sorted, func(a, b childEvent) int {
		return cmp.Or(cmp.Compare(a.reason, b.reason), cmp.Compare(a.child.group, b.child.group), cmp.Compare(a.child.kind, b.child.kind))
	})
	for len(sorted) > 0 {
		first := sorted[0]
		n := slices.IndexFunc(sorted, func(o childEvent) bool {
			return o.reason != first.reason || o.child.group != first.child.group || o.child.kind != first.child.kind
		})
		if n < 0 {
			n = len(sorted)
		}
		eventType := corev1.EventTypeNormal
		if first.reason == eventStuck || first.reason == controller.ReasonResourceExists {
			eventType = corev1.EventTypeWarning
		}
		events = append(events, controller.RecordEvent{Type: eventType, Reason: first.reason, Message: fmt.Sprintf(texts[first.reason], listed(sorted[:n]))})
		sorted = sorted[n:]
	}
	return events
}

// listed returns the names of children of one kind: "ConfigMap a", "3 ConfigMap: a, b, c".
func listed(childEvents []childEvent) string {
	kind := childEvents[0].child.kind
	var names []string
	for _, o := range childEvents[:min(len(childEvents), maxNames)] {
		names = append(names, strings.TrimPrefix(o.child.String(), kind+" "))
	}
	if len(childEvents) == 1 {
		return kind + " " + names[0]
	}
	text := fmt.Sprintf("%d %s: %s", len(childEvents), kind, strings.Join(names, ", "))
	if more := len(childEvents) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// warnings returns the events of a status that does not last and of a hook that never settles.
func (p *plan) warnings() (events []controller.RecordEvent) {
	if p.newProblem != nil {
		events = append(events, controller.RecordEvent{Type: corev1.EventTypeWarning, Reason: p.newProblem.Reason, Message: p.newProblem.Message})
	}
	if p.metadataStuck {
		events = append(events, metadataWarning())
	}
	if p.statusStuck {
		events = append(events, controller.RecordEvent{Type: corev1.EventTypeWarning, Reason: eventStatusStuck,
			Message: "The status does not last: another client changes it after each write. It is written ever more rarely"})
	}
	return events
}

// syncError returns the event of a sync that failed.
func syncError(err error) controller.RecordEvent {
	return controller.RecordEvent{Type: corev1.EventTypeWarning, Reason: eventSyncError, Message: controller.Truncate("Sync error: "+hook.Message(err), MaxMessage)}
}
