// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
)

const (
	// fewParents are compared with many.
	fewParents = 100
	// strays is the number of objects that belong to no parent, and strayChanges the number of their changes.
	strays, strayChanges = 1000, 5000
)

var compositeChurn = scenario{
	name: "composite-churn", about: "CPU of changes of objects that concern no parent, with few parents and with many",
	size: 10000, quickSize: 500, once: true,
	measure: func(ctx context.Context, t *turn) error { return t.host(ctx, "", measureChurn) },
}

func measureChurn(ctx context.Context, h *hosting) error {
	if err := h.createConfigMaps(ctx, strays, nil); err != nil {
		return err
	}
	existing := 0
	for _, number := range []int{fewParents, h.size} {
		if err := h.converge(ctx, existing, number-existing, parentSpec{Value: aValue}); err != nil {
			return err
		}
		existing = number
		idle, idleSeconds, err := h.engine.spend(ctx, func() error { return sleep(ctx, calmPause) })
		if err != nil {
			return err
		}
		rise, seconds, err := h.engine.spend(ctx, func() error {
			return inParallel(ctx, workers, strayChanges, func(ctx context.Context, i int) error {
				return h.setValue(ctx, strayName(i%strays), strconv.Itoa(i))
			})
		})
		if err != nil {
			return err
		}
		cpu := rise[cpuSeconds] - idle[cpuSeconds]*seconds/idleSeconds
		h.add(row{Name: fmt.Sprintf("CPU of a change that concerns none of %d parents", number), Unit: milliseconds, Goal: 0.05}, milli*cpu/strayChanges,
			"%d changes in %.1f s, %.0f syncs", strayChanges, seconds, rise[syncsTotal])
	}
	return nil
}
