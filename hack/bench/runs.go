// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// contender is who does the work of a run.
type contender interface {
	// begin is called at the begin of each phase, and returns when that was. In the first the work begins with it; in others
	// the disturbance comes after it.
	begin(ctx context.Context, phase int) (time.Time, error)
	// finish is called once all milestones are reached and all events are posted.
	finish(ctx context.Context) error
	// stop ends it, also in the midst of its work.
	stop() error
}

// outcome of one run.
type outcome struct {
	phases    []phaseOutcome
	clientCPU float64 // seconds, of the contender's process
}

// cpuSeconds is all that the run took, control plane included. What else runs on the machine does not change it much.
func (o outcome) cpuSeconds() float64 {
	total := o.clientCPU
	for _, p := range o.phases {
		total += p.requests.cpuSeconds
	}
	return total
}

// phaseOutcome is what a user sees, and what the API server counted.
type phaseOutcome struct {
	seconds  []float64 // until each milestone
	posted   float64   // seconds until the last event was posted
	requests counters
	events   int // posted and folded
}

// sent is the number of all requests.
func (p phaseOutcome) sent() int { return p.requests.total() + p.events }

func (p phaseOutcome) String() string {
	times := make([]string, 0, len(p.seconds))
	for _, seconds := range p.seconds {
		times = append(times, fmt.Sprintf("%.2f s", seconds))
	}
	return fmt.Sprintf("%s, events posted after %.2f s: %v, %d events", strings.Join(times, ", "), p.posted, p.requests, p.events)
}

// starting makes a contender that works on the population. It calls fail if it cannot go on.
type starting func(p *population, fail func(error)) (contender, error)

// run lets a contender go through the phases of the workload in a namespace of its own, and removes that.
func (b *bench) run(ctx context.Context, w *workload, start starting) (result outcome, err error) {
	p, err := b.newPopulation(ctx, w.count)
	if err != nil {
		return result, err
	}
	if err := p.create(ctx, w); err != nil {
		return result, err
	}
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	observer := newObserver()
	if err := w.observe(working, p, observer); err != nil {
		return result, err
	}
	c, err := start(p, fail)
	if err != nil {
		return result, err
	}
	result.phases, err = p.phases(working, w, c, observer)
	if err := errors.Join(err, c.stop()); err != nil {
		return result, err
	}
	fail(nil)
	return result, p.remove(ctx)
}

func (p *population) phases(ctx context.Context, w *workload, c contender, o *observer) (results []phaseOutcome, err error) {
	for i := range w.phases {
		result, err := p.phase(ctx, w, i, c, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.phases[i].name, err)
		}
		results = append(results, result)
	}
	return results, c.finish(ctx)
}

// phase lets the work of a phase be done, and waits until its milestones are reached and events tell of it.
func (p *population) phase(ctx context.Context, w *workload, number int, c contender, o *observer) (result phaseOutcome, err error) {
	ph := w.phases[number]
	eventsBefore := o.changes(eventsSeen)
	before, err := p.counters(ctx)
	if err != nil {
		return result, err
	}
	begin, err := p.start(ctx, ph, number, c)
	if err != nil {
		return result, err
	}
	for _, m := range ph.milestones {
		reached, err := o.await(ctx, p.count, m)
		if err != nil {
			return result, err
		}
		result.seconds = append(result.seconds, reached.Sub(begin).Seconds())
	}
	last, err := o.await(ctx, p.count, milestone{kind: eventsSeen, mark: posted, each: ph.events})
	if err != nil {
		return result, err
	}
	result.posted, result.events = last.Sub(begin).Seconds(), o.changes(eventsSeen)-eventsBefore
	after, err := p.counters(ctx)
	result.requests = after.minus(before).only(w.requests)
	return result, err
}

func (p *population) start(ctx context.Context, ph phase, number int, c contender) (begin time.Time, err error) {
	if ph.disturb == nil {
		return c.begin(ctx, number)
	}
	disturb, err := ph.disturb(ctx, p)
	if err != nil {
		return begin, err
	}
	if _, err := c.begin(ctx, number); err != nil {
		return begin, err
	}
	begin = time.Now()
	return begin, disturb()
}
