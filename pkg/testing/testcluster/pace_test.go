// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"testing"
	"time"
)

func TestSlowness(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int, took time.Duration) paceSample {
		return paceSample{begin.Add(time.Duration(seconds) * time.Second), took}
	}
	for name, test := range map[string]struct {
		samples []paceSample
		want    float64
	}{
		"no samples":                   {nil, 1},
		"as fast as the fastest":       {[]paceSample{at(1, 2), at(2, 2)}, 1},
		"slow before it began":         {[]paceSample{at(-5, 90), at(1, 2), at(2, 2)}, 1},
		"slow since it began":          {[]paceSample{at(-5, 2), at(1, 8), at(2, 12)}, 5},
		"no sample since it began":     {[]paceSample{at(-9, 2), at(-5, 6)}, 3},
		"slower than the fastest ever": {[]paceSample{at(1, 3), at(2, 3)}, 1.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := slowness(test.samples, 2, begin); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
