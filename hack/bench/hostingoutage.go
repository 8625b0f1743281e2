// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/hack/bench/parents"
)

// measureOutage measures how long it takes, once a hook is back, until all that has changed meanwhile is done.
func (b *bench) measureOutage(ctx context.Context) error {
	return b.host(ctx, "outage", b.parents, func(ctx context.Context, h *hosting) error {
		if err := h.createParents(ctx, 0, h.count, parents.Spec{Children: 1, Value: aValue}); err != nil {
			return err
		}
		if err := h.startEngine(ctx, nil); err != nil {
			return err
		}
		if _, err := h.awaitParents(ctx, h.count, aValue); err != nil {
			return err
		}
		if err := b.stopHook(); err != nil {
			return err
		}
		b.say("The hook is gone for %v, and %d parents change", b.outage, h.count)
		const after = "after the outage"
		gone := time.Now()
		if err := h.changeParents(ctx, after); err != nil {
			return err
		}
		spent, err := h.spend(ctx, func() error { return sleep(ctx, b.outage-time.Since(gone)) })
		if err != nil {
			return err
		}
		back := time.Now()
		if err := b.startHook(ctx, b.hookAddress); err != nil {
			return err
		}
		caughtUp, err := h.awaitParents(ctx, h.count, after)
		if err != nil {
			return err
		}
		b.measured.hosted.caughtUp, b.measured.hosted.outageCores = caughtUp.Sub(back).Seconds(), spent.cpuSeconds/spent.seconds
		b.say("  all have caught up after %.2f s; meanwhile the operator took %.1f %% of a core", b.measured.hosted.caughtUp, 100*b.measured.hosted.outageCores)
		return nil
	})
}

// changeParents lets all of them want another value.
func (h *hosting) changeParents(ctx context.Context, value string) error {
	patch := fmt.Appendf(nil, `{"spec":{"value":%q}}`, value)
	return inParallel(ctx, h.count, func(ctx context.Context, i int) error {
		if _, err := h.parents().Patch(ctx, objectName(i), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("changing parent %s/%s: %w", h.namespace, objectName(i), err)
		}
		return nil
	})
}
