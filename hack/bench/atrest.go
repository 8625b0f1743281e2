// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"
)

const (
	// settlePause without an event means that no more come.
	settlePause = 10 * time.Second
	// calmPause lets what a change leaves to do go by, before rest is measured.
	calmPause = 3 * time.Second
)

// measureAtRest measures what it takes to hold objects, and to begin with them.
func (b *bench) measureAtRest(ctx context.Context) error {
	if b.rows[rowIdle] || b.rows[rowHeap] {
		if _, err := b.populate(ctx, b.count, b.measureIdle); err != nil {
			return err
		}
	}
	if b.rows[rowHeap] {
		if err := b.measureHeap(ctx, b.count); err != nil {
			return err
		}
	}
	if !b.rows[rowHeap] && !b.rows[rowStart] {
		return nil
	}
	held := 0
	if b.rows[rowIdle] || b.rows[rowHeap] {
		held = b.count
	}
	if more := b.large - held; more > 0 {
		result, err := b.populate(ctx, more, nil)
		if err != nil {
			return err
		}
		b.measured.large, b.measured.largeCount = result, more
	}
	if b.rows[rowStart] {
		if err := b.measureStarts(ctx); err != nil {
			return err
		}
	}
	if b.rows[rowHeap] {
		return b.measureHeap(ctx, b.large)
	}
	return nil
}

// populate makes so many ImmortalContainers in a namespace of their own, lets the operator make their Pods, and has
// something done before that is stopped. They stay.
func (b *bench) populate(ctx context.Context, count int, then func(context.Context, *operator) error) (result phaseOutcome, err error) {
	b.say("Making %d ImmortalContainers and their Pods", count)
	w := containersOf(count)
	p, err := b.newPopulation(ctx, count)
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
	before, err := b.counters(ctx)
	if err != nil {
		return result, err
	}
	o, err := b.startOperator(ctx, b.kubeconfig())
	if err != nil {
		return result, err
	}
	o.onEnd(fail)
	defer func() { err = errors.Join(err, o.stop()) }()
	ready, err := observer.await(working, count, w.phases[0].milestones[0])
	if err != nil {
		return result, err
	}
	result.seconds = []float64{ready.Sub(o.started).Seconds()}
	if err := b.settle(working, observer, count); err != nil {
		return result, err
	}
	after, err := b.counters(ctx)
	if err != nil {
		return result, err
	}
	result.requests, result.events = after.minus(before).only(w.requests), observer.changes(eventsSeen)
	b.say("  all Ready after %.2f s: %v, %d events", result.seconds[0], result.requests, result.events)
	if then == nil {
		return result, nil
	}
	return result, then(working, o)
}

// settle waits until the events of all are posted, or no more come: the operator may have lost some.
func (b *bench) settle(ctx context.Context, o *observer, count int) error {
	for {
		o.mu.Lock()
		events := o.of(eventsSeen)
		posted, last := len(events.marks), events.changed
		o.mu.Unlock()
		if posted >= count || time.Since(last) > settlePause {
			return sleep(ctx, calmPause)
		}
		if err := sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(duration):
		return nil
	}
}
