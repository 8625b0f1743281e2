// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"testing"
	"testing/synctest"
	"time"
)

// Work waits until what was taken is paid, at the share of a CPU that it may take.
func TestCPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCPU(0.25)
		want := func(when string, want time.Duration) {
			t.Helper()
			if got := c.Wait().Round(time.Millisecond); got != want {
				t.Errorf("%s: other work waits %s, want %s", when, got, want)
			}
		}
		want("at the beginning", 0)
		c.Take(900 * time.Millisecond)
		want("after less than a second of CPU", 0)
		c.Take(600 * time.Millisecond)
		want("after half a second more", 2*time.Second)
		time.Sleep(time.Second)
		want("a second later", time.Second)
		c.Take(0)
		c.Take(-time.Hour)
		want("after nothing", time.Second)
		c.Take(1500 * time.Millisecond)
		want("after more than a second of CPU", 7*time.Second)
		c.Take(time.Hour)
		want("after an hour, of which three seconds count", 19*time.Second)
		time.Sleep(time.Hour)
		c.Take(time.Second)
		want("an hour later, after a second of CPU", 0)
	})
}
