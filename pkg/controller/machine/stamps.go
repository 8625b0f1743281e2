// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package machine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

// lever returns the step that moves the lever down, if it is up and due.
func lever(o *observed) []controller.Step {
	seenAt := o.machine.Status.SeenAt
	if !leverIsUp(o.machine) || seenAt == nil || o.now.Before(dueTime(o.machine, seenAt)) {
		return nil
	}
	return []controller.Step{patchLever{}}
}

// stamps returns the steps that record when each switch was seen up.
func stamps(o *observed) (steps []controller.Step) {
	for _, sw := range o.owned {
		seenAt := sw.Status.SeenAt
		switch {
		case isUp(sw) && (seenAt == nil || isUpAgain(o, sw)):
			steps = append(steps, stampSwitch{sw.Name, timeAt(o.now), true})
		case isUp(sw) && isFuture(seenAt, o.now):
			steps = append(steps, stampSwitch{sw.Name, timeAt(o.now), false})
		case !isUp(sw) && seenAt != nil:
			steps = append(steps, stampSwitch{name: sw.Name})
		}
	}
	return steps
}

// isUpAgain reports whether the switch was flipped up after we had moved it down, and before that was recorded: it has changed twice since
// it was stamped, and a flip has happened since it was due.
func isUpAgain(o *observed, sw *v1alpha1.Switch) bool {
	if sw.Generation < sw.Status.ObservedGeneration+2 {
		return false
	}
	status := &o.machine.Status
	if flip := status.Flip; flip != nil && flip.UID == sw.UID && reservationOf(o) == closedReservation {
		return true
	}
	return status.LastFlipTime != nil && !status.LastFlipTime.Time.Before(dueTime(o.machine, sw.Status.SeenAt))
}

func isUp(sw *v1alpha1.Switch) bool { return sw.Spec.Position != v1alpha1.PositionDown }

// leverIsUp reports whether the Machine has a lever that is not down.
func leverIsUp(machine *v1alpha1.Machine) bool {
	return machine.Spec.SwitchPosition != "" && machine.Spec.SwitchPosition != v1alpha1.PositionDown
}

// dueTime returns when a switch or a lever that was seen up at seenAt has to be moved down. A seenAt in the future, from a clock that went
// wrong, is replaced before.
func dueTime(machine *v1alpha1.Machine, seenAt *metav1.MicroTime) time.Time {
	return seenAt.Add(time.Duration(machine.Spec.FlipDelaySeconds) * time.Second)
}

// timeAt returns the time as the API server stores it.
func timeAt(t time.Time) *metav1.MicroTime {
	micro := metav1.NewMicroTime(t.Truncate(time.Microsecond))
	return &micro
}

// isFuture reports whether a recorded time is later than our clock.
func isFuture(recorded *metav1.MicroTime, now time.Time) bool {
	return recorded != nil && recorded.After(now)
}
