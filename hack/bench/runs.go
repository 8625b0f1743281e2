// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// contender is who does the work of a run.
type contender interface {
	// coldStart begins the work on ImmortalContainers that exist and have no Pods. Its time counts from now.
	coldStart(ctx context.Context) (begin time.Time, err error)
	// recovery is called before all Pods are deleted.
	recovery(ctx context.Context) error
	// finish is called once all is Ready again and all events are posted.
	finish(ctx context.Context) error
	// stop ends it, also in the midst of its work.
	stop() error
}

// outcome of one run.
type outcome struct {
	coldStart, recovery phaseOutcome
	clientCPU           float64 // seconds, of the contender's process
}

// cpuSeconds is all that the run took, control plane included. What else runs on the machine does not change it much.
func (o outcome) cpuSeconds() float64 {
	return o.clientCPU + o.coldStart.requests.CPUSeconds + o.recovery.requests.CPUSeconds
}

// phaseOutcome is what a user sees, and what the API server counted.
type phaseOutcome struct {
	seconds  float64 // until all are Ready
	events   float64 // seconds until the last event was posted
	requests counters
}

// run lets a contender do a cold start and a recovery in a namespace of its own, and removes that. The contender calls fail
// if it cannot go on.
func (b *bench) run(ctx context.Context, who func(p *population, fail func(error)) (contender, error)) (result outcome, err error) {
	p, err := b.newPopulation(ctx, b.count)
	if err != nil {
		return result, err
	}
	if err := p.create(ctx); err != nil {
		return result, err
	}
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	observer, err := p.observeContainers(working)
	if err != nil {
		return result, err
	}
	c, err := who(p, fail)
	if err != nil {
		return result, err
	}
	result, err = p.phases(working, c, observer)
	if err := errors.Join(err, c.stop()); err != nil {
		return result, err
	}
	fail(nil)
	return result, p.remove(ctx)
}

func (p *population) phases(ctx context.Context, c contender, o *observer) (result outcome, err error) {
	result.coldStart, err = p.phase(ctx, o, 1, func() (time.Time, error) { return c.coldStart(ctx) })
	if err != nil {
		return result, fmt.Errorf("cold start: %w", err)
	}
	result.recovery, err = p.phase(ctx, o, 2, func() (begin time.Time, err error) {
		pods, err := p.podNames(ctx)
		if err != nil {
			return begin, err
		}
		if err := c.recovery(ctx); err != nil {
			return begin, err
		}
		begin = time.Now()
		return begin, p.deletePods(ctx, pods)
	})
	if err != nil {
		return result, fmt.Errorf("recovery: %w", err)
	}
	return result, c.finish(ctx)
}

// phase begins what makes the given start of all ImmortalContainers, and waits until they are Ready and events tell of it.
func (p *population) phase(ctx context.Context, o *observer, start int, do func() (begin time.Time, err error)) (result phaseOutcome, err error) {
	before, err := p.counters(ctx)
	if err != nil {
		return result, err
	}
	begin, err := do()
	if err != nil {
		return result, err
	}
	ready, err := o.awaitReady(ctx, p.count, int64(start))
	if err != nil {
		return result, err
	}
	events, err := o.awaitEvents(ctx, p.count*start)
	if err != nil {
		return result, err
	}
	after, err := p.counters(ctx)
	return phaseOutcome{seconds: ready.Sub(begin).Seconds(), events: events.Sub(begin).Seconds(), requests: after.minus(before)}, err
}
