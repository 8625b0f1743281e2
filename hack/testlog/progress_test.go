// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

var steady = pace{takes: 100 * time.Second, ended: [10]int{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}}

func TestHowLongAPartStillTakes(t *testing.T) {
	late := pace{takes: 100 * time.Second, ended: [10]int{0, 0, 0, 0, 0, 0, 0, 0, 0, 100}}
	for name, test := range map[string]struct {
		pace    pace
		ended   int
		elapsed time.Duration
		want    time.Duration
	}{
		"it begins":                                {steady, 0, 0, 100 * time.Second},
		"as measured":                              {steady, 25, 25 * time.Second, 75 * time.Second},
		"half as fast":                             {steady, 50, 110 * time.Second, 100 * time.Second},
		"twice as fast":                            {steady, 50, 20 * time.Second, 25 * time.Second},
		"the first moments show little":            {steady, 0, 5 * time.Second, 150 * time.Second},
		"all have ended":                           {steady, 100, 90 * time.Second, 0},
		"more than there were":                     {steady, 200, 90 * time.Second, 0},
		"all end at the end":                       {late, 0, 90 * time.Second, 10 * time.Second},
		"the last tenth has begun, and half of it": {late, 50, 95 * time.Second, 5 * time.Second},
		"a part that was not measured":             {pace{}, 3, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.pace.left(test.ended, test.elapsed, 0)
			if got.Round(time.Second) != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// What follows takes longer on a machine on which this part does.
func TestPartsThatFollowAreCounted(t *testing.T) {
	if got, want := steady.left(50, 110*time.Second, 300*time.Second), 700*time.Second; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestProgressIsPrinted(t *testing.T) {
	now := time.Now()
	p := newProgress("unit", steady, 4, 0, func() time.Time { return now })
	var out strings.Builder
	p.tick(&out)
	if out.Len() > 0 {
		t.Errorf("it begins with %q", &out)
	}
	now, p.ended = now.Add(25*time.Second), 25
	p.tick(&out)
	if got, want := out.String(), "unit: 25 tests after 25s, about 75 s left\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	now, p.ended = now.Add(10*time.Second), 35
	if got, want := p.endPackage(), "  (1 of 4 packages, about 65 s left)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	now = now.Add(quiet - time.Second)
	out.Reset()
	if p.tick(&out); out.Len() > 0 {
		t.Errorf("after the line of a package it prints %q", &out)
	}
	if got, want := newProgress("unit", steady, 4, 10*time.Minute, time.Now).endPackage(), "  (1 of 4 packages, about 12 min left)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := newProgress("unit", steady, 0, 0, time.Now).endPackage(); got != "" {
		t.Errorf("without the number of packages: %q", got)
	}
}
