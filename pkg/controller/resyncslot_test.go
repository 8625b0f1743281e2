// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestResyncsAreMadeTogether(t *testing.T) {
	ends := map[time.Duration]int{}
	for i := range 1000 {
		elapsed := time.Hour + time.Duration(i)*500*time.Microsecond // 1,000 objects that are synced in half a second
		ends[elapsed+slotted(elapsed, 500*time.Millisecond)]++
	}
	if len(ends) > 18 {
		t.Errorf("1000 resyncs in half a second are made at %d times", len(ends))
	}
}

func TestSlotsOfDifferentLengthsEndTogether(t *testing.T) {
	seconds, minutes := time.Hour+slotted(time.Hour, 3*time.Second), time.Hour+slotted(time.Hour, time.Minute)
	half := seconds - 500*time.Millisecond // the end of its slot is that of the other too
	if got := half + slotted(half, 500*time.Millisecond); got != seconds {
		t.Errorf("a resync ends at %v, another at %v", seconds, got)
	}
	if (minutes-seconds)%maxSlot != 0 {
		t.Errorf("resyncs end at %v and %v, which no slot has in common", seconds, minutes)
	}
}

func TestAResyncIsNeverEarlierAndLittleLater(t *testing.T) {
	for range 100_000 {
		elapsed, after := time.Duration(rand.Int64N(int64(24*time.Hour))), 1+time.Duration(rand.Int64N(int64(1)<<(1+rand.IntN(43))))
		got := slotted(elapsed, after)
		if late := got - after; late < 0 || late > after/slotShare || late >= maxSlot {
			t.Fatalf("after %v, a resync in %v is made in %v", elapsed, after, got)
		}
	}
}
