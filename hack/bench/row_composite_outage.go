// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/hack/bench/traffic"
)

// outage is how long the hook is gone.
const outage = time.Minute

var compositeOutage = scenario{
	name: "composite-outage", about: "time from the return of a hook until all parents have caught up that changed meanwhile",
	size: 1000, quickSize: 50, once: true,
	measure: func(ctx context.Context, t *turn) error { return t.host(ctx, composite(""), measureOutage) },
}

func measureOutage(ctx context.Context, h *hosting) error {
	if err := h.converge(ctx, 0, h.size, parentSpec{Children: 1, Value: aValue}); err != nil {
		return err
	}
	if err := h.hook.Close(); err != nil {
		return err
	}
	const after = "after the outage"
	duration := outage
	if h.quick {
		duration /= 12
	}
	rise, period, err := h.engine.spend(ctx, func() error {
		gone := time.Now()
		err := inParallel(ctx, writers, h.size, func(ctx context.Context, i int) error {
			_, err := h.parents().Patch(ctx, traffic.ObjectName(i), types.MergePatchType, fmt.Appendf(nil, `{"spec":{"value":%q}}`, after), metav1.PatchOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("changing the parents: %w", err)
		}
		return sleep(ctx, duration-time.Since(gone))
	})
	if err != nil {
		return err
	}
	back := time.Now()
	if err := h.startHook(h.hookAddress); err != nil {
		return err
	}
	caughtUp, err := h.awaitParents(ctx, h.size, after)
	if err != nil {
		return err
	}
	h.add(row{Name: fmt.Sprintf("hook gone for %v, until %d parents have caught up", duration, h.size), Unit: seconds, Goal: 60}, caughtUp.Sub(back).Seconds(),
		"meanwhile %.1f %% of a core", 100*rise[cpuSeconds]/period)
	return nil
}
