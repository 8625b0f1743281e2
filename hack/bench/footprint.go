// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"
)

const (
	// heapLimit makes the operator collect garbage often, so that what is left is known soon after the work has ended. It
	// does not change what is left.
	heapLimit = "GOGC=10"
	// collections is after how many of them nothing is kept any more that is only pooled or waits for its finalizer.
	collections = 2
)

// measureIdle measures the CPU of an operator that has nothing to do but to watch and to renew its Lease.
func (b *bench) measureIdle(ctx context.Context, o *operator) error {
	if !b.rows[rowIdle] {
		return nil
	}
	before, err := o.metrics(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := sleep(ctx, b.idle); err != nil {
		return err
	}
	after, err := o.metrics(ctx)
	if err != nil {
		return err
	}
	b.measured.idleCores = (after.cpuSeconds - before.cpuSeconds) / time.Since(begin).Seconds()
	b.say("Idle: %.2f %% of a core, %v syncs in %v", 100*b.measured.idleCores, after.syncs-before.syncs, b.idle)
	return nil
}

// measureHeap measures what an operator that has been started on so many objects holds once all are synced.
func (b *bench) measureHeap(ctx context.Context, objects int) (err error) {
	o, err := b.startOperator(ctx, b.kubeconfig(), heapLimit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.stop()) }()
	if err := errors.Join(o.awaitLeading(ctx, "immortalcontainer"), o.awaitSynced(ctx, objects)); err != nil {
		return err
	}
	heap, err := o.awaitLiveHeap(ctx)
	if err != nil {
		return err
	}
	b.measured.heap[objects] = heap
	b.say("Heap with %d objects: %.1f MiB", objects, heap/mebi)
	return nil
}

// awaitLiveHeap waits for collections of garbage, and returns what they have left, in bytes. There is to be little work, and a heapLimit.
func (o *operator) awaitLiveHeap(ctx context.Context) (float64, error) {
	begin, err := o.metrics(ctx)
	for now := begin; err == nil; now, err = o.metrics(ctx) {
		// Being asked for metrics is what makes garbage, and so collections.
		if now.collections-begin.collections >= collections {
			return now.liveHeap, nil
		}
	}
	return 0, err
}
