// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package machine

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

// isSameStatus reports whether a write would change nothing.
func isSameStatus(old, status *v1alpha1.MachineStatus) bool {
	return equality.Semantic.DeepEqual(old, status)
}

// nextStatus returns the status to write, with the reservation of the flip that is made next.
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
			status.LastFlipTime = timeAt(o.now) // by a clock that went wrong: wait for one interval
		}
		status.Flip = nextFlip(o, status.LastFlipTime)
	}
	value, reason, message := readiness(o)
	controller.SetCondition(&status.Conditions, o.now, o.machine.Generation, v1alpha1.ConditionReady, value, reason, message)
	return status
}

// positions returns the first letter of each switch's position. The switches are sorted by name.
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

// describeStatus returns the status as one line, for logs.
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

// readiness returns the Ready condition.
func readiness(o *observed) (value metav1.ConditionStatus, reason, message string) {
	current := meta.FindStatusCondition(o.machine.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case o.selector == nil:
		return metav1.ConditionFalse, v1alpha1.ReasonInvalidSelector, o.invalid
	case o.progress.rejection != "":
		return metav1.ConditionFalse, v1alpha1.ReasonCreateFailed, o.progress.rejection
	case missing(o) > 0 && hasReason(current, v1alpha1.ReasonCreateFailed):
		return current.Status, current.Reason, current.Message // until the API server answers otherwise
	case missing(o) != 0:
		return metav1.ConditionFalse, v1alpha1.ReasonScaling, fmt.Sprintf("%d of %d switches", len(o.owned), o.machine.Spec.Switches)
	case hasClaimsLeft(o):
		return metav1.ConditionFalse, v1alpha1.ReasonScaling, "More switches are adopted or released"
	case len(o.olderMachines) > 0:
		return metav1.ConditionFalse, v1alpha1.ReasonSelectorOverlap, "The selector also matches switches of Machine " + oldest(o.olderMachines)
	default:
		return metav1.ConditionTrue, v1alpha1.ReasonComplete, ""
	}
}

// oldest returns the names of the oldest Machines. The text is the same however many more there are, so that the status of a Machine is not written
// again for each of them.
func oldest(machines []string) string {
	if len(machines) <= maxListed {
		return listed(machines)
	}
	return strings.Join(machines[:maxListed], ", ") + " and of others"
}

func hasReason(condition *metav1.Condition, reason string) bool {
	return condition != nil && condition.Reason == reason
}
