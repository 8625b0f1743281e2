// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"sync"
	"time"
)

const (
	// breakerThreshold is how many calls in a row must go without an answer before a hook is suspended.
	breakerThreshold = 5
	// firstPause is how long it is suspended then, and lastPause the longest. In between it doubles.
	firstPause = time.Second
	lastPause  = time.Minute
	// probePatience is the delay for other calls while one call probes whether the hook answers again.
	probePatience = time.Second
)

// breaker is a circuit breaker for a hook that does not answer: after some failures in a row there is a pause, then one call is let
// through as a probe. It closes with the first answer, whatever its status is: any answer shows that the hook is reachable.
//
// There is one per hook, not per host: wrong credentials or a wrong path of one controller must not affect another.
type breaker struct {
	mu       sync.Mutex
	failures int
	pause    time.Duration // zero while it is closed
	until    time.Time
	probing  bool
	// epoch counts the resets: the result of a call that began before the last one does not count.
	epoch int
}

// permit is the permission to make one call. The result of the call must be reported.
type permit struct {
	epoch int
	probe bool
}

// blocked returns for how long calls are blocked, without taking a permit.
func (b *breaker) blocked() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.blockedLocked()
}

func (b *breaker) blockedLocked() time.Duration {
	switch {
	case b.pause == 0:
		return 0
	case b.probing:
		return probePatience
	default:
		return max(time.Until(b.until), 0)
	}
}

// allow returns the permission to make a call, or for how long there is none.
func (b *breaker) allow() (permit, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := b.blockedLocked(); wait > 0 {
		return permit{}, wait
	}
	b.probing = b.pause > 0
	return permit{epoch: b.epoch, probe: b.probing}, 0
}

// answered reports a call to which there was an answer.
func (b *breaker) answered(p permit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.epoch == b.epoch {
		b.failures, b.pause, b.probing = 0, 0, false
	}
}

// abandoned reports a call that the caller has ended.
func (b *breaker) abandoned(p permit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.epoch == b.epoch && p.probe {
		b.probing = false
	}
}

// failed reports a call without an answer. Calls that were running when the breaker opened do not extend the pause.
func (b *breaker) failed(p permit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.epoch != b.epoch || b.pause > 0 && !p.probe {
		return
	}
	b.failures++
	b.probing = false
	if b.failures >= breakerThreshold {
		b.pause = min(max(2*b.pause, firstPause), lastPause)
		b.until = time.Now().Add(b.pause)
	}
}

// reset forgets all failures: they were caused by other credentials.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.pause, b.probing = 0, 0, false
	b.epoch++
}
