// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"math"
	"runtime/debug"
)

const (
	// shippedMemory is the soft memory limit of the Go runtime in the Deployment millwright-actions as shipped, in bytes: 80 % of 512 MiB.
	shippedMemory = 512 << 20 / 100 * 80
	// maxPercent is how much of a number a process with a large memory limit may have: such things take more than memory.
	maxPercent = 400
	// leastForKeys is the least of what keys share, so that one of them cannot have all.
	leastForKeys = 2
)

// ForMemory returns how much this process may have of something that takes memory, if a process with the memory limit of the shipped Deployment may have n:
// in proportion to its memory limit, at least 1, and at most four times n. It returns n if the process has no memory limit. The soft memory limit of the Go
// runtime has to be set before.
func ForMemory(n int) int {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return n
	}
	percent := min(int(math.Round(float64(limit)*100/shippedMemory)), maxPercent)
	return max(1, n*percent/100)
}

// AtMostForMemory returns the same, but at most n: more of it would take too many workers or too much CPU.
func AtMostForMemory(n int) int { return min(n, ForMemory(n)) }

// NewMemoryLimit returns a limit of [ForMemory] of n for all keys together, at least 2, of which one key may have three quarters.
func NewMemoryLimit[K comparable](n int) *Limit[K] { return NewLimit[K](Shared(ForMemory(n))) }

// Shared returns how much of n one key may have, three quarters, and all keys together: n, but at least 2, so that one key cannot have all.
func Shared(n int) (ofKey, total int) {
	total = max(leastForKeys, n)
	return total * 3 / 4, total
}

// Numbers returns how many one key may have, and all together.
func (l *Limit[K]) Numbers() (ofKey, total int) { return l.ofKey, l.total }
