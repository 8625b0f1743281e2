// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"testing"
	"time"
	"unsafe"
)

// fight lets another client take each write back after so long, and returns how long each write waited beyond that.
func fight(r RewriteBackoff, now time.Time, takenBackAfter time.Duration, writes int) (waits []time.Duration, _ RewriteBackoff, _ time.Time) {
	for range writes {
		now = now.Add(takenBackAfter)
		wait := r.Wait(now)
		waits = append(waits, wait)
		now = now.Add(wait)
		r = r.Add(now)
	}
	return waits, r, now
}

func TestRewriteBackoff(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	waits, r, now := fight(RewriteBackoff{}, start, 0, 20)
	want := append(make([]time.Duration, FreeRewrites), time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 32*time.Second,
		time.Minute, time.Minute, time.Minute, time.Minute)
	if !slices.Equal(waits, want) {
		t.Errorf("the writes wait %v, want %v", waits, want)
	}
	if !r.Slowed(now) || (RewriteBackoff{}).Slowed(now) {
		t.Error("Slowed does not return which of them waits")
	}
	waits, _, _ = fight(r, now, time.Second, 1000)
	if slices.Max(waits) > MaxRewriteBackoff || slices.Min(waits) < MaxRewriteBackoff-time.Second {
		t.Errorf("after a long time the pause is %s to %s", slices.Min(waits), slices.Max(waits))
	}
}

func TestTimeThatPassesIsCreditedToAWait(t *testing.T) {
	_, r, now := fight(RewriteBackoff{}, time.Unix(0, 0), 0, FreeRewrites+3) // the next pause is 8 s
	for after, want := range map[time.Duration]time.Duration{
		0: 8 * time.Second, 5 * time.Second: 3 * time.Second, 8 * time.Second: 0, time.Minute: 0, -time.Hour: 8 * time.Second,
	} {
		if got := r.Wait(now.Add(after)); got != want {
			t.Errorf("%s after the last write the next waits %s, want %s", after, got, want)
		}
	}
}

func TestRareWritesNeverWait(t *testing.T) {
	waits, _, _ := fight(RewriteBackoff{}, time.Unix(0, 0), rewriteWindow, 100)
	if slices.Max(waits) > 0 {
		t.Errorf("writes that are a minute apart wait %v", waits)
	}
}

func TestARowIsOverSomeTimeAfterItsLastWrite(t *testing.T) {
	_, r, now := fight(RewriteBackoff{}, time.Unix(0, 0), 0, 100)
	after := r.ForgottenAfter(now)
	if after <= MaxRewriteBackoff {
		t.Fatalf("it is over after %s: a write that waited its pause would begin another row", after)
	}
	if over := now.Add(after); r.Slowed(over) || r.Wait(over) > 0 || r.ForgottenAfter(over) > 0 {
		t.Error("it is not over when it says")
	}
	if again := r.Add(now.Add(after)); again != (RewriteBackoff{1, uptime(now.Add(after))}) {
		t.Errorf("the next write makes it %+v", again)
	}
	if before := now.Add(after - time.Nanosecond); !r.Slowed(before) {
		t.Error("it is over before it says")
	}
}

func TestEase(t *testing.T) {
	_, r, now := fight(RewriteBackoff{}, time.Unix(0, 0), 0, 100)
	eased := r.Ease()
	if got := eased.Wait(now); got != minRewriteBackoff || !eased.Slowed(now) {
		t.Errorf("the next write waits %s, want %s", got, minRewriteBackoff)
	}
	if touched := eased.Touch(now.Add(time.Second)); touched.times != eased.times || touched.Wait(now.Add(time.Second)) != minRewriteBackoff {
		t.Errorf("a write that does not count makes it %+v", touched)
	}
	few := RewriteBackoff{}.Add(now)
	if few.Ease() != few {
		t.Error("a short row is another one when it is eased")
	}
}

// TestRewriteBackoffIgnoresWallClock: when the wall clock is set back by an hour, writes wait no longer than before.
func TestRewriteBackoffIgnoresWallClock(t *testing.T) {
	now := time.Now()
	var r RewriteBackoff
	for range FreeRewrites + 3 {
		r = r.Add(now)
	}
	if wait := r.Wait(now); wait == 0 {
		t.Fatal("nothing has to wait")
	}
	later := setBack(now.Add(2*MaxRewriteBackoff), time.Hour)
	if now.Unix()-later.Unix() < 3000 || later.Sub(now) != 2*MaxRewriteBackoff {
		t.Fatalf("the wall clock shows %s, and %s have passed", later, later.Sub(now))
	}
	if wait := r.Wait(later); wait > 0 {
		t.Errorf("after the clock was set back, the next write waits for %s", wait)
	}
}

// setBack returns a time as time.Now returns it when the wall clock was set back: the reading of the other clock is as before.
func setBack(now time.Time, by time.Duration) time.Time {
	// The first word has the seconds of the wall clock, from its 30th bit on.
	*(*uint64)(unsafe.Pointer(&now)) -= uint64(by/time.Second) << 30
	return now
}
