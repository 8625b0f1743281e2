// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
)

var compositeResync = scenario{
	name: "composite-resync", about: "resync of parents each second by a hook that cannot keep up, over what it can answer",
	size: 3000, quickSize: 300,
	measure: func(ctx context.Context, t *turn) error { return t.host(ctx, composite(slow), measureResync) },
}

func measureResync(ctx context.Context, h *hosting) error {
	spec := parentSpec{Children: 1, Value: aValue, ResyncAfterSeconds: 1}
	if err := h.converge(ctx, 0, h.size, spec); err != nil {
		return err
	}
	rise, seconds, err := h.engine.spend(ctx, func() error { return sleep(ctx, syncWindow) })
	if err != nil {
		return err
	}
	// A sync that finds no place to call the hook ends without a call, and is made again.
	answers := rise[hookAnswers] / seconds
	possible := min(callsInParallel/slowAnswer.Seconds(), float64(h.size)/spec.ResyncAfterSeconds)
	h.add(row{Name: fmt.Sprintf("time between two syncs of %d parents by a slow hook, over the least", h.size), Unit: times, Goal: 1.2}, possible/answers,
		"%.0f answers a second of %.0f that are possible; %.3f ms of CPU each", answers, possible, milli*rise[cpuSeconds]/rise[hookAnswers])
	return nil
}
