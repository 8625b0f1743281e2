// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"millwright.dev/hack/bench/traffic"
	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

var compositeApply = scenario{
	name: "composite-apply", about: "server-side apply of children, over dynamic apply; the number is that of children",
	size: 1000, quickSize: 50,
	measure: measureApply,
}

// applied declares a CompositeController whose children are applied by a strategy.
func applied(strategy v1alpha1.ApplyStrategy) declaration {
	d := composite("")
	object := d.object
	d.object = func(h *hosting) runtime.Object {
		c := object(h).(*v1alpha1.CompositeController)
		c.Spec.ApplyStrategy = strategy
		return c
	}
	return d
}

// changedValue is what children are updated to.
const changedValue = "changed"

func measureApply(ctx context.Context, t *turn) error {
	type cost struct{ create, update, bare, sync float64 }
	costs := map[v1alpha1.ApplyStrategy]cost{}
	for _, strategy := range []v1alpha1.ApplyStrategy{v1alpha1.ApplyDynamic, v1alpha1.ApplyServerSide} {
		var c cost
		err := t.host(ctx, applied(strategy), func(ctx context.Context, h *hosting) (err error) {
			if err := h.startEngine(ctx, nil); err != nil {
				return err
			}
			begin := time.Now()
			if err := h.createParent(ctx, traffic.ObjectName(0), h.stage, parentSpec{Children: h.size, Value: aValue}); err != nil {
				return err
			}
			if c.create, err = h.secondsUntil(ctx, begin, aValue); err != nil {
				return err
			}
			begin = time.Now()
			if err := h.setParentValue(ctx, changedValue); err != nil {
				return err
			}
			if c.update, err = h.secondsUntil(ctx, begin, changedValue); err != nil {
				return err
			}
			if err := h.stopEngine(); err != nil {
				return err
			}
			c.bare, err = h.copyChild(ctx, childName(traffic.ObjectName(0), 0), changedValue, strategy == v1alpha1.ApplyServerSide)
			return err
		})
		if err != nil {
			return err
		}
		spec := parentSpec{Children: 1, Value: aValue, ResyncAfterSeconds: resyncTime.Seconds()}
		rise, _, err := t.measureUnchanged(ctx, applied(strategy), t.size, spec, syncWindow)
		if err != nil {
			return err
		}
		c.sync = milli * rise[cpuSeconds] / rise[syncsTotal]
		costs[strategy] = c
	}
	ours, theirs := costs[v1alpha1.ApplyServerSide], costs[v1alpha1.ApplyDynamic]
	t.add(row{Name: fmt.Sprintf("creation of %d children by server-side apply, over dynamic apply", t.size), Unit: times, Goal: 1.1}, ours.create/theirs.create,
		"%.2f s and %.2f s; a bare client needs %.2f s and %.2f s, %.2fx; an update of all: %.2fx",
		ours.create, theirs.create, ours.bare, theirs.bare, ours.bare/theirs.bare, ours.update/theirs.update)
	t.add(row{Name: fmt.Sprintf("creation of %d children by server-side apply, over a bare client that applies them", t.size), Unit: times, Goal: 1 / 0.8},
		ours.create/ours.bare, "%.2f s and %.2f s", ours.create, ours.bare)
	t.add(row{Name: "CPU of a sync of an unchanged child with server-side apply, over dynamic apply", Unit: times, Goal: 1.1}, ours.sync/theirs.sync,
		"%.3f ms and %.3f ms, of %d parents", ours.sync, theirs.sync, t.size)
	return nil
}

// secondsUntil returns the time until all children have a value.
func (h *hosting) secondsUntil(ctx context.Context, begin time.Time, value string) (float64, error) {
	last, err := h.seen.await(ctx, h.size, milestone{childrenKind, value})
	return last.Sub(begin).Seconds(), err
}
