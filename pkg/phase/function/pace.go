// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"millwright.dev/pkg/phase"
)

const (
	// secondsOfBudget is how long the work that a Budget pays for takes a CPU.
	secondsOfBudget = 0.2
	// maxOfOne and maxOfAll are how much of a CPU the polls of one phase may take, and those of all phases of this process.
	maxOfOne, maxOfAll = 0.02, 0.25
	// maxPause is the longest interval between two polls. With more than some hundred expensive phases, all of them take more than maxOfAll.
	maxPause = 5 * time.Minute
	// jitter is by how much an interval may be shorter, as a part of it, so that expensive phases that were polled together are not again.
	jitter = 0.2
	// maxLate is how long after its time a phase may be polled, because its ActionSet waits, until it does not count any more.
	maxLate = 3 * time.Minute
	// conditionsOfBudget is how many conditions take about as much of a CPU as what a Budget pays for, without what is paid from it.
	conditionsOfBudget = 10_000
)

// pace determines how often each phase that waits for other objects is polled in this process. If all of them would take too much of a CPU, here or of the
// API server, the share of each namespace is limited, and that of each phase in it. Those that would take more are polled less often. A phase that takes less
// is not delayed, nor are those of a namespace that takes less. The zero value is ready for use.
type pace struct {
	mu    sync.Mutex
	polls map[phase.ID]*pacedPoll
	// shares are how much of a CPU one phase of a namespace may take, as they were computed with this number of phases.
	shares   map[string]float64
	computed time.Time
	counted  int

	expensive expensiveObjects
}

// pacedPoll is a phase between two polls.
type pacedPoll struct {
	// demand is how much of a CPU it would take if it were not delayed.
	demand float64
	// next is the time of the next poll. Until expires the phase is counted, if it is not polled again.
	next, expires time.Time
	// waiting is the result of the last poll.
	waiting phase.Waiting
}

// costOf returns about how much of a CPU it takes to read that, in Budgets.
func costOf(reads *phase.Reads) float64 { return budgets(reads.CPU()) }

// budgets returns how many Budgets pay for as much of a CPU.
func budgets(cpu time.Duration) float64 { return cpu.Seconds() / secondsOfBudget }

// poll polls a phase, unless that is not due yet: then the observation is the last one. A phase that is about to be cancelled is polled. The poll costs what it
// reads with the context.
func (p *pace) poll(ctx context.Context, call phase.Call, poll func(context.Context, phase.Call) (phase.Observation, error)) (phase.Observation, error) {
	if rest, waiting := p.rest(call.ID); rest > 0 && !call.Cancelled {
		return phase.Observation{State: phase.Running, PollAfter: rest, Waiting: waiting}, nil
	}
	ctx, reads := phase.CountReads(ctx)
	found, err := poll(ctx, call)
	switch {
	case err != nil: // it is tried again
	case found.State == phase.Running:
		found.PollAfter = p.polled(call.ID, costOf(reads), found.PollAfter, found.Waiting)
	default:
		p.end(call.ID)
	}
	return found, err
}

// polled records a poll that has cost this number of Budgets. It returns the interval until the next one, which is not shorter than least.
func (p *pace) polled(id phase.ID, cost float64, least time.Duration, waiting phase.Waiting) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.polls == nil {
		p.polls = map[phase.ID]*pacedPoll{}
	}
	seconds := cost * secondsOfBudget
	interval := min(max(least.Seconds(), seconds/maxOfOne), maxPause.Seconds())
	w := &pacedPoll{demand: seconds / interval, waiting: waiting, expires: now.Add(maxPause)}
	p.polls[id] = w
	if share := p.shareOfOne(now, id.Namespace); w.demand > share {
		interval = min(seconds/share, maxPause.Seconds())
	}
	if interval > least.Seconds() {
		interval = max(least.Seconds(), interval*(1-jitter*rand.Float64()))
	}
	after := time.Duration(interval * float64(time.Second))
	w.next, w.expires = now.Add(after), now.Add(after+maxLate)
	return after
}

// firstPoll is what a phase waits for that is not polled yet, because that is known to be expensive.
var firstPoll = phase.Waiting{For: "its first evaluation", Details: "its conditions are on large objects"}

// start is for a phase that begins, whose first poll costs at least this number of Budgets: it waits as a phase does that has just been polled.
func (p *pace) start(id phase.ID, cost float64) {
	if cost > 0 {
		p.polled(id, cost, 0, firstPoll)
	}
}

// rest returns how long it is until the next poll, with the result of the last one; 0 if it is due.
func (p *pace) rest(id phase.ID) (time.Duration, phase.Waiting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.polls[id]
	if w == nil {
		return 0, phase.Waiting{}
	}
	return max(time.Until(w.next), 0), w.waiting
}

// end is for a phase that has ended.
func (p *pace) end(id phase.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.polls, id)
}

// shareOfOne returns how much of a CPU one phase of the namespace may take.
func (p *pace) shareOfOne(now time.Time, namespace string) float64 {
	if similar := 10*max(p.counted-len(p.polls), len(p.polls)-p.counted) <= p.counted; !similar || now.Sub(p.computed) >= time.Second {
		p.computeShares(now)
	}
	if share, ok := p.shares[namespace]; ok {
		return share
	}
	return math.Inf(1) // until the next computation
}

func (p *pace) computeShares(now time.Time) {
	maps.DeleteFunc(p.polls, func(_ phase.ID, w *pacedPoll) bool { return w.expires.Before(now) })
	demands, together := map[string][]float64{}, map[string]float64{}
	for id, w := range p.polls {
		demands[id.Namespace] = append(demands[id.Namespace], w.demand)
		together[id.Namespace] += w.demand
	}
	p.shares, p.computed, p.counted = map[string]float64{}, now, len(p.polls)
	ofNamespace := fairShare(slices.Collect(maps.Values(together)), maxOfAll)
	for namespace, of := range demands {
		p.shares[namespace] = fairShare(of, ofNamespace)
	}
}

// fairShare returns how much one of these demands may have at most, so that together they have what is available: infinity if that is enough for all. What
// those have left that demand less is for the others.
func fairShare(demands []float64, available float64) float64 {
	slices.Sort(demands)
	for i, demand := range demands {
		if share := available / float64(len(demands)-i); demand > share {
			return share
		}
		available -= demand
	}
	return math.Inf(1)
}
