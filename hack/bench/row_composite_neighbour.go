// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// neighbourAnswer is how long each answer of the slow neighbour takes.
	neighbourAnswer = 8 * time.Second
	// quickAnswer is how long each answer of the quick hook takes.
	quickAnswer = 5 * time.Millisecond
	// quickEdits is how many edits of a parent are measured.
	quickEdits = 100
)

var compositeNeighbour = scenario{
	name: "composite-neighbour", about: "edits of a parent whose quick hook has the host of a slow one; the number is that of the parents of the slow hook",
	size: 300, quickSize: 50,
	measure: func(ctx context.Context, t *turn) error { return t.host(ctx, delayed(quickAnswer), measureNeighbour) },
}

// delayed declares a CompositeController whose hook takes that long.
func delayed(answer time.Duration) declaration {
	return composite(fmt.Sprintf("?%s=%v", delayParameter, answer))
}

func measureNeighbour(ctx context.Context, h *hosting) error {
	if err := h.converge(ctx, 0, 1, parentSpec{Value: aValue}); err != nil {
		return err
	}
	alone, err := h.editParent(ctx, "alone", quickEdits)
	if err != nil {
		return err
	}
	return h.host(ctx, delayed(neighbourAnswer), func(ctx context.Context, neighbour *hosting) error {
		if err := neighbour.createParents(ctx, 0, h.size, parentSpec{Value: aValue, ResyncAfterSeconds: 1}); err != nil {
			return err
		}
		busy := func() bool { return h.hookCalls.underWay.Load() >= callsInParallel/2 }
		waiting, stop := context.WithTimeout(ctx, milestoneTimeout)
		defer stop()
		if err := poll(waiting, "calls of the slow hook", busy); err != nil {
			return err
		}
		together, err := h.editParent(ctx, "together", quickEdits)
		if err != nil {
			return err
		}
		if !busy() {
			return fmt.Errorf("the slow hook was called no more at the end: %d calls under way", h.hookCalls.underWay.Load())
		}
		h.add(row{Name: fmt.Sprintf("an edit of a parent next to %d whose hook takes %v, over one without them", h.size, neighbourAnswer), Unit: times, Goal: 1.2},
			median(together)/median(alone), "medians of %d edits, %.1f ms and %.1f ms; 95 of 100 within %.1f ms and %.1f ms", quickEdits,
			milli*median(together), milli*median(alone), milli*percentile(together, 95), milli*percentile(alone, 95))
		return h.stopEngine()
	})
}

// editParent changes the value of a parent several times. It returns the seconds of each until the status had it.
func (h *hosting) editParent(ctx context.Context, value string, times int) (seconds []float64, err error) {
	for i := range times {
		to := fmt.Sprintf("%s %d", value, i)
		begin := time.Now()
		if err := h.setParentValue(ctx, to); err != nil {
			return nil, err
		}
		reached, err := h.awaitParents(ctx, 1, to)
		if err != nil {
			return nil, err
		}
		seconds = append(seconds, reached.Sub(begin).Seconds())
	}
	return seconds, nil
}
