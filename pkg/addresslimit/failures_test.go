// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package addresslimit

import (
	"net/netip"
	"testing"
	"time"
)

func TestFailures(t *testing.T) {
	const maxFailures, failureInterval = 10, time.Second
	l, now := NewFailures(maxFailures, failureInterval), time.Now()
	attacker, other := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	reviewed := func(address netip.Prefix, requests int, fails bool) (n int) {
		for range requests {
			succeeded, ok := l.Begin(address, now)
			if ok {
				n++
			}
			if ok && !fails {
				succeeded()
			}
		}
		return n
	}
	if n := reviewed(attacker, 500, true); n != maxFailures {
		t.Errorf("%d of 500 requests are reviewed, want %d", n, maxFailures)
	}
	if n := reviewed(other, 500, false); n != 500 {
		t.Errorf("%d of 500 requests of another address are reviewed, want all", n)
	}
	now = now.Add(3 * failureInterval)
	if n := reviewed(attacker, 500, true); n != 3 {
		t.Errorf("%d of 500 requests are reviewed after three intervals, want 3", n)
	}
	now = now.Add(time.Hour)
	if n := reviewed(attacker, 500, true); n != maxFailures {
		t.Errorf("%d of 500 requests are reviewed after an hour, want %d", n, maxFailures)
	}
}

// A request succeeds once, however often it is authorized.
func TestARequestSucceedsOnce(t *testing.T) {
	l, address, now := NewFailures(2, time.Second), netip.MustParsePrefix("192.0.2.1/32"), time.Now()
	succeeded, _ := l.Begin(address, now)
	if _, ok := l.Begin(address, now); !ok {
		t.Fatal("the second request is refused")
	}
	succeeded()
	succeeded()
	l.Begin(address, now)
	if _, ok := l.Begin(address, now); ok {
		t.Error("two requests have failed, and a third one is reviewed")
	}
}
