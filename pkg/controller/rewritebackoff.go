// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package controller

import "time"

const (
	// FreeRewrites is how many writes of a series are immediate although none of them has lasted.
	FreeRewrites = 10
	// The pause before each further write doubles, from minRewriteBackoff to MaxRewriteBackoff.
	minRewriteBackoff = time.Second
	MaxRewriteBackoff = time.Minute
	// rewriteWindow, plus two pauses, is how long after a write the next one belongs to another series.
	rewriteWindow = time.Minute
)

// RewriteBackoff is the backoff of writes that do not last: another client reverts each of them, or each desired state differs from the one
// before. These writes do not fail, so no rate limiter slows them down. The zero value is a series without a write. It belongs in the memory
// that a controller keeps per key, and is lost with the process: then the series begins again.
//
// The controller decides which writes count. A write that a user has requested, or that another change has caused, does not.
type RewriteBackoff struct {
	times int
	last  int64 // by uptime: there may be one for each of many objects
}

// Add counts a write.
func (r RewriteBackoff) Add(now time.Time) RewriteBackoff {
	return RewriteBackoff{r.current(now).times + 1, uptime(now)}
}

// Touch records a write that does not count. The next write waits for its pause after it.
func (r RewriteBackoff) Touch(now time.Time) RewriteBackoff {
	return RewriteBackoff{r.current(now).times, uptime(now)}
}

// Ease shortens the pause, if there is one, to the shortest one.
func (r RewriteBackoff) Ease() RewriteBackoff {
	r.times = min(r.times, FreeRewrites)
	return r
}

// Wait returns how long the next write has to wait, 0 if not at all.
func (r RewriteBackoff) Wait(now time.Time) time.Duration {
	pause := r.current(now).pause()
	return max(0, min(pause, r.left(now, pause)))
}

// Slowed reports whether the series is so long that writes wait.
func (r RewriteBackoff) Slowed(now time.Time) bool { return r.current(now).times >= FreeRewrites }

// ForgottenAfter returns how long it takes, without another write, until the series is over; 0 if it is.
func (r RewriteBackoff) ForgottenAfter(now time.Time) time.Duration {
	if r.times == 0 {
		return 0
	}
	whole := rewriteWindow + 2*r.pause()
	return max(0, min(whole, r.left(now, whole)))
}

// left returns how much is left of a duration that began with the last write.
func (r RewriteBackoff) left(now time.Time, whole time.Duration) time.Duration {
	return time.Duration(r.last-uptime(now)) + whole
}

// current returns the series, or an empty one if it is over.
func (r RewriteBackoff) current(now time.Time) RewriteBackoff {
	if r.ForgottenAfter(now) == 0 {
		return RewriteBackoff{}
	}
	return r
}

func (r RewriteBackoff) pause() time.Duration {
	doublings := r.times - FreeRewrites
	switch {
	case doublings < 0:
		return 0
	case doublings > 10:
		return MaxRewriteBackoff
	default:
		return min(minRewriteBackoff<<doublings, MaxRewriteBackoff)
	}
}
