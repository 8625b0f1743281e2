// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"millwright.dev/pkg/testing/patience"
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

// The limit is stretched by what is slower, the processor or the API server.
func TestPacesAreSampled(t *testing.T) {
	t.Parallel()
	Shared(t)
	begin := time.Now()
	for name, pace := range map[string]*pace{"processor": &processorPace, "API server": &apiServerPace} {
		if complaint := patience.Eventually(t.Context(), func() string {
			pace.lock.Lock()
			defer pace.lock.Unlock()
			if n := len(pace.samples); n == 0 || pace.samples[n-1].ended.Before(begin) {
				return fmt.Sprintf("got no sample of the %s since the test began, of %d", name, n)
			}
			return ""
		}); complaint != "" {
			t.Error(complaint)
		}
	}
}

func TestPaceOfFailedWork(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	var p pace
	calls := 0
	p.sample(stop, func() error {
		if calls++; calls == 3 {
			close(stop)
			return nil
		}
		return errors.New("it fails")
	})
	if len(p.samples) != 1 || p.fastest != p.samples[0].took {
		t.Errorf("got samples %v, the fastest %s, want the only one that did not fail", p.samples, p.fastest)
	}
}
