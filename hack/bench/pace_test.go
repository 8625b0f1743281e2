// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

// at is a change of a switch of one Machine, so many milliseconds after the begin.
func at(milliseconds int, name string, up bool) change {
	return change{"m", name, up, time.Unix(1000, 0).Add(time.Duration(milliseconds) * time.Millisecond)}
}

var fiveSeconds = rules{flips: 2, delay: 5 * time.Second, interval: 5 * time.Second, tolerance: 100 * time.Millisecond}

func TestFlipsThatKeepThePaceAreNeitherAmissNorEarlyAndTheirLatenessIsThatOverThePace(t *testing.T) {
	p := paceOf([]change{
		at(0, "a", false), at(0, "b", false),
		at(100, "a", true), at(140, "b", true),
		at(200, "a", true), // its stamp
		at(5300, "a", false), at(5350, "a", false),
		at(10700, "b", false),
	}, 1, fiveSeconds)
	if p.flips != 2 || p.amiss != 0 || p.early != 0 {
		t.Errorf("got %+v", p)
	}
	// Due at 5.1 and, an interval after the first, at 10.3 s.
	if want := []float64{0.2, 0.4}; !slices.EqualFunc(p.lateness, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
		t.Errorf("the lateness is %v, want %v", p.lateness, want)
	}
	if p.soonest != 5200*time.Millisecond || p.closest != 5400*time.Millisecond {
		t.Errorf("the soonest is %v, the closest %v", p.soonest, p.closest)
	}
}

func TestFlipsThatAreLostOrTooManyAreAmiss(t *testing.T) {
	lost := []change{at(0, "a", true), at(0, "b", true), at(5000, "a", false)}
	if p := paceOf(lost, 1, fiveSeconds); p.amiss != 1 || p.flips != 1 {
		t.Errorf("one is lost: %+v", p)
	}
	if p := paceOf(lost, 3, fiveSeconds); p.amiss != 5 {
		t.Errorf("of two other Machines nothing was seen: %+v", p)
	}
	again := append(slices.Clone(lost), at(10000, "b", false), at(11000, "a", true), at(16000, "a", false))
	if p := paceOf(again, 1, fiveSeconds); p.amiss != 1 || p.flips != 3 {
		t.Errorf("one is too many: %+v", p)
	}
}

func TestAFlipIsEarlyBeforeItsDelayAndBeforeTheIntervalButNotWithinTheTolerance(t *testing.T) {
	for _, test := range []struct {
		name    string
		changes []change
		want    int
	}{
		{"before the delay", []change{at(0, "a", true), at(4800, "a", false)}, 1},
		{"before the delay of its own switch", []change{at(0, "a", true), at(6000, "b", true), at(5000, "a", false), at(10500, "b", false)}, 1},
		{"before the interval", []change{at(0, "a", true), at(0, "b", true), at(6000, "a", false), at(10800, "b", false)}, 1},
		{"within the tolerance", []change{at(0, "a", true), at(0, "b", true), at(4950, "a", false), at(9900, "b", false)}, 0},
	} {
		if p := paceOf(test.changes, 1, fiveSeconds); p.early != test.want {
			t.Errorf("%s: %d are early, want %d", test.name, p.early, test.want)
		}
	}
}

func TestEachMachineHasAPaceOfItsOwn(t *testing.T) {
	other := func(c change) change {
		c.machine = "other"
		return c
	}
	p := paceOf([]change{
		at(0, "a", true), at(0, "b", true), other(at(1000, "c", true)), other(at(1000, "d", true)),
		at(5000, "a", false), other(at(6000, "c", false)), at(10000, "b", false), other(at(11000, "d", false)),
	}, 2, fiveSeconds)
	if p.flips != 4 || p.amiss != 0 || p.early != 0 || slices.Max(p.lateness) != 0 {
		t.Errorf("got %+v", p)
	}
}
