// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import "time"

const (
	// slotShare of the time until a resync is the longest slot, and minSlot and maxSlot bound it.
	slotShare        = 8
	minSlot, maxSlot = time.Millisecond, 256 * time.Millisecond
)

// slotted extends the time until a resync, by at most an eighth, so that it ends when a slot does. The time that has elapsed is measured from the
// same instant for all. An idle process that wakes up for one resync pays several times for what it does: threads are started, and caches are
// cold. So those that are due about the same time are made together. A slot is a power of two milliseconds, so that slots of different lengths
// end together.
func slotted(elapsed, after time.Duration) time.Duration {
	slot := minSlot
	for 2*slot <= min(after/slotShare, maxSlot) {
		slot *= 2
	}
	if slot > after/slotShare {
		return after
	}
	due := elapsed + after
	return (due+slot-1)/slot*slot - elapsed
}
