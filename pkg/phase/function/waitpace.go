// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"millwright.dev/pkg/phase"
)

const (
	// secondsOfBudget is how long the work that a Budget pays for takes a CPU.
	secondsOfBudget = 0.2
	// maxOfOne and maxOfAll are how much of a CPU the conditions of one Wait may take, and those of all Waits of this process.
	maxOfOne, maxOfAll = 0.02, 0.25
	// maxPause is the longest interval between two evaluations. With more than some hundred expensive Waits, all of them take more than maxOfAll.
	maxPause = 5 * time.Minute
	// readsOfBudget and conditionsOfBudget are how many requests, and conditions, take about as much of a CPU as what a Budget pays for, without what is
	// paid from it.
	readsOfBudget, conditionsOfBudget = 400, 10_000
)

// waitPace determines how often the conditions of each Wait of this process are evaluated. If all of them would take too much of a CPU, the share of each
// namespace is limited, and that of each Wait in it. Those that would take more are evaluated less often. A Wait that takes less is not delayed, nor are those
// of a namespace that takes less. The zero value is ready for use.
type waitPace struct {
	mu    sync.Mutex
	waits map[phase.ID]*pacedWait
	// shares are how much of a CPU one Wait of a namespace may take, as they were computed with this number of Waits.
	shares   map[string]float64
	computed time.Time
	counted  int
}

// pacedWait is a Wait between two evaluations.
type pacedWait struct {
	// demand is how much of a CPU it would take if it were not delayed.
	demand float64
	// next is the time of the next evaluation. Until expires it is counted, if it is not evaluated again.
	next, expires time.Time
	// waiting is the result of the last evaluation.
	waiting phase.Waiting
}

// evaluated records an evaluation that has cost this number of Budgets. It returns the interval until the next one, which is no shorter than least.
func (p *waitPace) evaluated(id phase.ID, cost float64, least time.Duration, waiting phase.Waiting) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.waits == nil {
		p.waits = map[phase.ID]*pacedWait{}
	}
	seconds := cost * secondsOfBudget
	interval := max(least.Seconds(), seconds/maxOfOne)
	w := &pacedWait{demand: seconds / interval, waiting: waiting, expires: now.Add(maxPause)}
	p.waits[id] = w
	if share := p.shareOfOne(now, id.Namespace); w.demand > share {
		interval = min(seconds/share, maxPause.Seconds())
	}
	after := time.Duration(interval * float64(time.Second))
	w.next, w.expires = now.Add(after), now.Add(after+time.Minute)
	return after
}

// rest returns how long it is until the next evaluation, with the result of the last one; 0 if it is due.
func (p *waitPace) rest(id phase.ID) (time.Duration, phase.Waiting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waits[id]
	if w == nil {
		return 0, phase.Waiting{}
	}
	return max(time.Until(w.next), 0), w.waiting
}

// end is for a Wait that has ended.
func (p *waitPace) end(id phase.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waits, id)
}

// shareOfOne returns how much of a CPU one Wait of the namespace may take.
func (p *waitPace) shareOfOne(now time.Time, namespace string) float64 {
	if similar := 10*max(p.counted-len(p.waits), len(p.waits)-p.counted) <= p.counted; !similar || now.Sub(p.computed) >= time.Second {
		p.computeShares(now)
	}
	if share, ok := p.shares[namespace]; ok {
		return share
	}
	return math.Inf(1) // until the next computation
}

func (p *waitPace) computeShares(now time.Time) {
	maps.DeleteFunc(p.waits, func(_ phase.ID, w *pacedWait) bool { return w.expires.Before(now) })
	demands, together := map[string][]float64{}, map[string]float64{}
	for id, w := range p.waits {
		demands[id.Namespace] = append(demands[id.Namespace], w.demand)
		together[id.Namespace] += w.demand
	}
	p.shares, p.computed, p.counted = map[string]float64{}, now, len(p.waits)
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
