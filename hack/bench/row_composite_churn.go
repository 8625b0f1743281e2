// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

const (
	// fewParents are compared with many.
	fewParents = 100
	// strays is the number of objects that belong to no parent, and strayChanges the number of their changes.
	strays, strayChanges = 1000, 5000
	// churnPause is longer than the last changes take until nothing is left to do for them.
	churnPause = 500 * time.Millisecond
)

var compositeChurn = scenario{
	name: "composite-churn", about: "CPU of changes of objects that concern no parent, with few parents and with many",
	size: 10000, quickSize: 500, once: true,
	measure: func(ctx context.Context, t *turn) error { return t.host(ctx, composite(""), measureChurn) },
}

func measureChurn(ctx context.Context, h *hosting) error {
	if err := h.createConfigMaps(ctx, strays, nil, nil); err != nil {
		return err
	}
	existing := 0
	for _, number := range []int{fewParents, h.size} {
		if err := h.converge(ctx, existing, number-existing, parentSpec{Value: aValue}); err != nil {
			return err
		}
		existing = number
		rise, seconds, err := h.churn(ctx, strays, strayName)
		if err != nil {
			return err
		}
		h.add(row{Name: fmt.Sprintf("CPU of a change that concerns none of %d parents", number), Unit: milliseconds, Goal: 0.05}, milli*rise[cpuSeconds]/strayChanges,
			"%d changes in %.1f s, %.0f syncs", strayChanges, seconds, rise[syncsTotal])
	}
	return nil
}

// churn changes ConfigMaps, of which there are that many, in turn. It returns what the engine does for these changes.
func (h *hosting) churn(ctx context.Context, number int, name func(i int) string) (rise metrics, seconds float64, err error) {
	return h.engine.spendBusy(ctx, func() error {
		err := inParallel(ctx, workers, strayChanges, func(ctx context.Context, i int) error {
			return h.setValue(ctx, name(i%number), strconv.Itoa(i))
		})
		return errors.Join(err, sleep(ctx, churnPause))
	})
}

// spendBusy returns what the operator does during a call: the rise of its metrics, where its CPU is that beyond what it uses at rest.
func (o *operator) spendBusy(ctx context.Context, call func() error) (rise metrics, seconds float64, err error) {
	idle, idleSeconds, err := o.spend(ctx, func() error { return sleep(ctx, calmPause) })
	if err != nil {
		return nil, 0, err
	}
	if rise, seconds, err = o.spend(ctx, call); err == nil {
		rise[cpuSeconds] -= idle[cpuSeconds] * seconds / idleSeconds
	}
	return rise, seconds, err
}
