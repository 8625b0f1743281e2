// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"testing"
	"time"
)

func TestCleanUpOfPhase(t *testing.T) {
	var of phaseCleanUp
	after := func(d time.Duration, stage cleanUpStage, result cleanUpResult) phaseCleanUp {
		return of.tried(noon.Add(d), stage, result)
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 15, 15} {
		if of = after(0, whileRunning, cleanUpRefused); of.again != noon.Add(want*time.Minute) || of.clean || of.givenUp {
			t.Errorf("after failure %d of a run that goes on: %+v, want the next try after %d minutes", i+1, of, want)
		}
	}
	of = after(0, afterEnd, cleanUpRefused)
	if next := after(cleanUpLimit-1, afterEnd, cleanUpRefused); next.givenUp {
		t.Error("given up before the limit")
	}
	if next := after(cleanUpLimit, afterEnd, cleanUpFailed); next.givenUp || !next.refusedSince.IsZero() {
		t.Errorf("after an outage: %+v, want the time to begin again", next)
	}
	if next := after(cleanUpLimit, afterEnd, cleanUpRefused); !next.givenUp {
		t.Error("not given up at the limit")
	}
	if next := after(0, terminating, cleanUpFailed); !next.givenUp {
		t.Error("not given up although the namespace is terminating")
	}
	for stage, atEnd := range map[cleanUpStage]bool{whileRunning: false, afterEnd: true, terminating: true} {
		if next, want := after(cleanUpLimit, stage, nothingLeft), (phaseCleanUp{clean: true, atEnd: atEnd}); next != want {
			t.Errorf("nothing is left: got %+v, want %+v", next, want)
		}
	}
}
