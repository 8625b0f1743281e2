// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeStore has seen its resource up to the version.
type fakeStore struct{ version string }

func (s *fakeStore) LastStoreSyncResourceVersion() string { return s.version }

func TestConsistencyStore(t *testing.T) {
	for name, tc := range map[string]struct {
		wrote []string
		seen  string
		want  bool
	}{
		"nothing was written":                           {nil, "5", true},
		"the cache has yet to see the write":            {[]string{"7"}, "6", false},
		"the cache has seen the very write":             {[]string{"7"}, "7", true},
		"the cache has seen more":                       {[]string{"7"}, "8", true},
		"versions are numbers, not text":                {[]string{"10"}, "9", false},
		"the newest of several writes counts":           {[]string{"7", "9"}, "8", false},
		"an older answer that comes late does not":      {[]string{"9", "7"}, "8", false},
		"numbers are compared whatever their length":    {[]string{"9", "10"}, "9", false},
		"the cache does not know its version":           {[]string{"7"}, "", true},
		"the cache has a version that is none":          {[]string{"7"}, "seven", true},
		"the write was answered without a version":      {[]string{""}, "6", true},
		"the write was answered with an odd version":    {[]string{"x"}, "6", true},
		"a write without a version hides no other one":  {[]string{"7", ""}, "7", true},
		"a write without a version blocks no other one": {[]string{"", "7"}, "6", false},
	} {
		t.Run(name, func(t *testing.T) {
			var consistency ConsistencyStore[string]
			store := &fakeStore{version: tc.seen}
			for _, version := range tc.wrote {
				consistency.WroteAt("a", store, version)
			}
			if got := consistency.IsReady("a"); got != tc.want {
				t.Errorf("IsReady is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestConsistencyStoreWaitsForEveryCache(t *testing.T) {
	var consistency ConsistencyStore[string]
	pods, machines := &fakeStore{version: "1"}, &fakeStore{version: "1"}
	consistency.WroteAt("a", pods, "5")
	consistency.WroteAt("a", machines, "6")
	for _, step := range []struct {
		pods, machines string
		want           bool
	}{
		{"4", "4", false},
		{"5", "5", false},
		{"4", "6", false},
		{"5", "6", true},
	} {
		pods.version, machines.version = step.pods, step.machines
		if got := consistency.IsReady("a"); got != step.want {
			t.Errorf("with Pods at %s of 5 and Machines at %s of 6 IsReady is %t", step.pods, step.machines, got)
		}
	}
	if len(consistency.writes) != 0 {
		t.Errorf("what was reached is still kept: %v", consistency.writes)
	}
}

func TestConsistencyStoreKeysAreIndependent(t *testing.T) {
	var consistency ConsistencyStore[string]
	store := &fakeStore{version: "1"}
	consistency.WroteAt("a", store, "5")
	if !consistency.IsReady("b") {
		t.Error("b waits for a write of a")
	}
	if consistency.IsReady("a") {
		t.Error("a does not wait for its write")
	}
}

func TestConsistencyStoreClear(t *testing.T) {
	var consistency ConsistencyStore[string]
	consistency.Clear("a") // of which nothing is known
	consistency.WroteAt("a", &fakeStore{version: "1"}, "5")
	consistency.Clear("a")
	if !consistency.IsReady("a") {
		t.Error("a waits for a write that was forgotten")
	}
	if len(consistency.writes) != 0 {
		t.Errorf("what was forgotten is still kept: %v", consistency.writes)
	}
}

func TestRequeueUnlessReady(t *testing.T) {
	const notReached, reached, wroteMore, gone = "not reached", "reached", "wrote more", "gone"
	for name, tc := range map[string]struct {
		// looks at the key, 400 ms apart, and what they lead to.
		looks []string
		want  []time.Duration
	}{
		"no event comes": {[]string{notReached}, []time.Duration{time.Second}},
		"several come, none of them the awaited one":        {[]string{notReached, notReached, notReached}, []time.Duration{time.Second}},
		"the next time it is not reached either":            {[]string{notReached, notReached, notReached, notReached}, []time.Duration{time.Second, 2200 * time.Millisecond}},
		"the awaited event comes":                           {[]string{notReached, reached}, nil},
		"something else is written after the awaited event": {[]string{notReached, reached, wroteMore}, nil},
		"the event of that write does not come":             {[]string{notReached, reached, wroteMore, notReached}, []time.Duration{2200 * time.Millisecond}},
		"the key is gone":                                   {[]string{notReached, gone}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var consistency ConsistencyStore[string]
				store := &fakeStore{version: "1"}
				consistency.WroteAt("a", store, "5")
				enqueued := make(chan time.Duration, 10)
				begin := time.Now()
				for _, look := range tc.looks {
					switch look {
					case notReached:
						consistency.RequeueUnlessReady("a", func(...string) { enqueued <- time.Since(begin) })
					case reached:
						store.version = "5"
						consistency.IsReady("a")
					case wroteMore:
						consistency.WroteAt("a", store, "7")
					case gone:
						consistency.Clear("a")
					}
					time.Sleep(400 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				close(enqueued)
				var got []time.Duration
				for at := range enqueued {
					got = append(got, at)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("looked at again after (-want +got):\n%s", diff)
				}
				if len(consistency.requeued) != 0 {
					t.Errorf("still to be looked at again: %v", consistency.requeued)
				}
			})
		})
	}
}
