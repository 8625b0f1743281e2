// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxSyncs is more syncs than can run at a time.
	maxSyncs = 1 << 20
	// aloneWait is how long a sync that has to be alone waits for the end of the others. No other one begins meanwhile.
	aloneWait = 20 * time.Second
	// aloneRest is for how many times as long as such a sync has taken, with its wait, the next one is not tried.
	aloneRest = 4
)

// exclusion lets a sync of an ActionSet run while no other one does, so that what it does is to blame if the process ends meanwhile.
type exclusion struct {
	syncs *semaphore.Weighted

	mu sync.Mutex
	// waits: a sync waits to be alone, or is. next is when the next one may do so.
	waits bool
	next  time.Time
}

func newExclusion() *exclusion { return &exclusion{syncs: semaphore.NewWeighted(maxSyncs)} }

// runningSync is a sync that has begun.
type runningSync struct {
	of *exclusion
	// weight is how much of the syncs it is.
	weight int64
	// began is when it has begun to wait to be alone.
	began time.Time
}

// begin waits while a sync is alone. The error is that of the context.
func (e *exclusion) begin(ctx context.Context) (*runningSync, error) {
	if err := e.syncs.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting for the end of a sync that is alone: %w", err)
	}
	return &runningSync{of: e, weight: 1}, nil
}

// end ends the sync.
func (r *runningSync) end() {
	r.letOthersRun()
	r.of.syncs.Release(r.weight)
}

// letOthersRun ends that the sync is alone, if it is.
func (r *runningSync) letOthersRun() {
	if r.weight == maxSyncs {
		r.weight = 1
		r.of.release(r.began)
		r.of.syncs.Release(maxSyncs - 1)
	}
}

// goAlone waits for the end of the other syncs, and reports whether this one is alone then. Otherwise others take long, or a sync was alone shortly before, and
// after is when to try again. The error is that of the context; then the sync has ended.
func (r *runningSync) goAlone(ctx context.Context) (alone bool, after time.Duration, _ error) {
	if after := r.of.reserve(); after > 0 {
		return false, after, nil
	}
	r.began = time.Now()
	r.of.syncs.Release(r.weight)
	bounded, cancel := context.WithTimeout(ctx, aloneWait)
	defer cancel()
	if r.weight = maxSyncs; r.of.syncs.Acquire(bounded, r.weight) == nil {
		return true, 0, nil
	}
	r.of.release(r.began)
	if r.weight = 1; r.of.syncs.Acquire(ctx, r.weight) != nil {
		r.weight = 0
		return false, 0, fmt.Errorf("waiting for the end of a sync that is alone: %w", context.Cause(ctx))
	}
	return false, aloneRest * time.Since(r.began), nil
}

// reserve lets a sync wait to be alone. If it may not, after is when to try again.
func (e *exclusion) reserve() (after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	after = time.Until(e.next)
	if e.waits {
		after = max(after, time.Second)
	}
	e.waits = e.waits || after <= 0
	return after
}

// release lets the next sync wait to be alone, after a rest.
func (e *exclusion) release(began time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waits, e.next = false, time.Now().Add(aloneRest*time.Since(began))
}
