// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// burstOfCPU is how much CPU time may be taken before any is paid.
	burstOfCPU = time.Second
	// mostOfWork is the most that one piece of work counts as.
	mostOfWork = 3 * time.Second
)

// CPU limits how much of a CPU work takes over time, here or in the API server. What a piece of work takes is known when it has ended, so the limit may be
// exceeded meanwhile, and the next one waits longer.
type CPU struct {
	// limiter has microseconds as tokens.
	limiter *rate.Limiter
}

// NewCPU returns a limit for work that may take a share of a CPU, such as 0.5.
func NewCPU(share float64) *CPU {
	return &CPU{rate.NewLimiter(rate.Limit(share*float64(time.Second.Microseconds())), int(burstOfCPU.Microseconds()))}
}

// Take counts CPU time that was taken.
func (c *CPU) Take(cpu time.Duration) {
	now := time.Now()
	for cpu = min(cpu, mostOfWork); cpu > 0; cpu -= burstOfCPU {
		c.limiter.ReserveN(now, int(min(cpu, burstOfCPU).Microseconds()))
	}
}

// Wait returns how long other work has to wait until what was taken is paid; 0 if it need not.
func (c *CPU) Wait() time.Duration {
	missing := -c.limiter.Tokens()
	return time.Duration(max(0, missing) / float64(c.limiter.Limit()) * float64(time.Second))
}
