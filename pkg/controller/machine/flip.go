// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package machine

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// The protocol of flips. At any time the newest version of a Machine has one reservation or none, and a flip is accepted only
// by the version of the Switch that its reservation names. So each reservation makes one flip at most, whoever carries it out
// and however often. It is closed when its version is known to be an old one, so that it makes none from then on; lastFlipTime
// is written together with that, and the next reservation, which is a later version of the same Machine, comes an interval
// after it. Two flips are therefore never closer than the interval, whatever is stale, late, lost or killed.

// reservation is what is known of status.flip.
type reservation int

const (
	// noReservation: there is none.
	noReservation reservation = iota
	// openReservation: its version may be the newest. The flip is to be completed, with that version.
	openReservation
	// closedReservation: its version is not the newest. The flip has happened, or never will.
	closedReservation
	// unknownReservation: only the API server can tell.
	unknownReservation
)

// reservationOf tells what is known of the reservation.
func reservationOf(o *observed) reservation {
	flip := o.machine.Status.Flip
	switch {
	case flip == nil:
		return noReservation
	case o.reserved != nil && isNewer(o.reserved.ResourceVersion, flip.ResourceVersion):
		return closedReservation
	case o.reserved != nil:
		return openReservation // a cache that is behind closes nothing
	case o.live:
		return closedReservation
	}
	order, err := resourceversion.CompareResourceVersion(o.switchesVersion, flip.ResourceVersion)
	switch {
	case err != nil:
		return unknownReservation
	case order >= 0:
		return closedReservation // the cache has seen that version, and the Switch is not in it: it is gone
	default:
		return openReservation
	}
}

// isNewer tells whether a version is newer than another of the same object. Where they cannot be compared, another one is a
// newer one.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	if err != nil {
		return version != than
	}
	return order > 0
}

// nextFlip is the reservation to make now: of the switches that are due, the one that was seen first. It is nil before the
// interval is over, and while there is nothing to flip. A reservation that is open must be closed before.
func nextFlip(o *observed, lastFlipTime *metav1.MicroTime) *v1alpha1.Flip {
	if o.now.Before(notBefore(o.machine, lastFlipTime)) {
		return nil
	}
	due := slices.DeleteFunc(pending(o), func(sw *v1alpha1.Switch) bool { return o.now.Before(dueTime(o.machine, sw.Status.SeenAt)) })
	if len(due) == 0 {
		return nil
	}
	first := slices.MinFunc(due, func(a, b *v1alpha1.Switch) int {
		return cmp.Or(a.Status.SeenAt.Compare(b.Status.SeenAt.Time), cmp.Compare(a.Name, b.Name))
	})
	return &v1alpha1.Flip{Switch: first.Name, UID: first.UID, ResourceVersion: first.ResourceVersion}
}

// pending are the switches that wait to be moved down.
func pending(o *observed) (pending []*v1alpha1.Switch) {
	for _, sw := range o.owned {
		if isUp(sw) && sw.Status.SeenAt != nil {
			pending = append(pending, sw)
		}
	}
	return pending
}

func isUp(sw *v1alpha1.Switch) bool { return sw.Spec.Position != v1alpha1.PositionDown }

// leverIsUp tells whether the Machine has a lever, and not down.
func leverIsUp(machine *v1alpha1.Machine) bool {
	return machine.Spec.SwitchPosition != "" && machine.Spec.SwitchPosition != v1alpha1.PositionDown
}

// dueTime is when what was seen up then is to be moved down. What lies in the future, by a clock that went wrong, was
// written anew before this is asked.
func dueTime(machine *v1alpha1.Machine, seenAt *metav1.MicroTime) time.Time {
	return seenAt.Add(time.Duration(machine.Spec.FlipDelaySeconds) * time.Second)
}

// notBefore is when the interval after the last flip is over.
func notBefore(machine *v1alpha1.Machine, lastFlipTime *metav1.MicroTime) time.Time {
	if lastFlipTime == nil {
		return time.Time{}
	}
	return lastFlipTime.Add(time.Duration(machine.Spec.FlipIntervalSeconds) * time.Second)
}

// flipTime is when a switch that was seen up then is to be moved down, if it is the next one of the Machine.
func flipTime(machine *v1alpha1.Machine, seenAt *metav1.MicroTime) time.Time {
	due := dueTime(machine, seenAt)
	if gate := notBefore(machine, machine.Status.LastFlipTime); due.Before(gate) {
		return gate
	}
	return due
}

// timeAt is a time as the API server keeps it.
func timeAt(t time.Time) *metav1.MicroTime {
	micro := metav1.NewMicroTime(t.Truncate(time.Microsecond))
	return &micro
}

// isFuture tells whether a recorded time cannot have been, by our clock.
func isFuture(recorded *metav1.MicroTime, now time.Time) bool {
	return recorded != nil && recorded.After(now)
}
