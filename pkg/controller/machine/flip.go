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

// The protocol of flips. At any time the newest version of a Machine has one reservation or none, and a flip is accepted only by the version
// of the Switch that its reservation names. So each reservation makes one flip at most, whichever process carries it out and however often.
// A reservation is closed when its version is known to be an old one: from then on it makes no flip. lastFlipTime is written together with
// the closing, and the next reservation, in a later version of the same Machine, comes an interval after it. Therefore two flips are never
// closer than the interval, whatever is stale, late, lost or killed.

// reservation is the state of status.flip.
type reservation int

const (
	// noReservation: there is none.
	noReservation reservation = iota
	// openReservation: its version may be the newest. The flip has to be completed, with that version.
	openReservation
	// closedReservation: its version is not the newest. The flip has happened, or never will.
	closedReservation
	// unknownReservation: the live Switch has to be read.
	unknownReservation
)

// reservationOf returns the state of the reservation.
func reservationOf(o *observed) reservation {
	flip := o.machine.Status.Flip
	switch {
	case flip == nil:
		return noReservation
	case o.reserved != nil && isNewer(o.reserved.ResourceVersion, flip.ResourceVersion):
		return closedReservation
	case o.reserved != nil:
		return openReservation // a stale cache closes nothing
	case o.reservedIsLive:
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

// isNewer reports whether a version is newer than another of the same object. Of versions that cannot be compared, any other one is newer.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	if err != nil {
		return version != than
	}
	return order > 0
}

// nextFlip returns the reservation to make now: of the switches that are due, the one that was seen first. It returns nil before the
// interval is over, and if no switch is due. An open reservation must be closed before.
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

// pending returns the switches that wait to be moved down.
func pending(o *observed) (pending []*v1alpha1.Switch) {
	for _, sw := range o.owned {
		if isUp(sw) && sw.Status.SeenAt != nil {
			pending = append(pending, sw)
		}
	}
	return pending
}

// notBefore returns when the interval after the last flip is over.
func notBefore(machine *v1alpha1.Machine, lastFlipTime *metav1.MicroTime) time.Time {
	if lastFlipTime == nil {
		return time.Time{}
	}
	return lastFlipTime.Add(time.Duration(machine.Spec.FlipIntervalSeconds) * time.Second)
}

// flipTime returns when a switch that was seen up at seenAt has to be moved down, if it is the next one of the Machine.
func flipTime(machine *v1alpha1.Machine, seenAt, lastFlipTime *metav1.MicroTime) time.Time {
	due := dueTime(machine, seenAt)
	if gate := notBefore(machine, lastFlipTime); due.Before(gate) {
		return gate
	}
	return due
}
