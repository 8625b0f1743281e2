// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// syncLimit is how long a sync may run before the process is reported as unhealthy. A sync makes a few requests, one after the other, each
// with a deadline of somewhat more than a minute: a sync that takes longer than this hangs. One that makes many restarts the limit (RestartSyncLimit).
const syncLimit = 10 * time.Minute

// ExtendSyncLimit increases the limit of the sync of this context by a duration, because the sync waits for something with a deadline that
// users set. Outside of a sync it does nothing.
func ExtendSyncLimit(ctx context.Context, by time.Duration) {
	if running, ok := ctx.Value(runningKey{}).(*runningSync); ok {
		running.allow(by)
	}
}

// RestartSyncLimit restarts the limit of the sync of this context, because the sync has done one of many things that it does. Outside of a sync it does
// nothing.
func RestartSyncLimit(ctx context.Context) {
	if running, ok := ctx.Value(runningKey{}).(*runningSync); ok {
		running.restart()
	}
}

type runningKey struct{}

// runningSyncs are the running syncs of one loop.
type runningSyncs struct {
	mu    sync.Mutex
	syncs map[*runningSync]struct{}
}

type runningSync struct {
	of  *runningSyncs
	key any

	begun    time.Time     // under the lock of the others
	limit    time.Duration // under the same lock
	reported bool          // under the same lock
}

func newRunningSyncs() *runningSyncs { return &runningSyncs{syncs: map[*runningSync]struct{}{}} }

// begin records a sync until end is called.
func (r *runningSyncs) begin(ctx context.Context, key any) (_ context.Context, end func()) {
	running := &runningSync{of: r, key: key, begun: time.Now(), limit: syncLimit}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.syncs[running] = struct{}{}
	return context.WithValue(ctx, runningKey{}, running), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.syncs, running)
	}
}

func (s *runningSync) allow(by time.Duration) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.limit += by
}

func (s *runningSync) restart() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.begun, s.limit, s.reported = time.Now(), syncLimit, false
}

// check returns an error that names the sync that has been running for the longest time beyond its limit. Each of them is logged once.
func (r *runningSyncs) check(logger klog.Logger) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var worst *runningSync
	overdue := 0
	for running := range r.syncs {
		ran := time.Since(running.begun)
		if ran <= running.limit {
			continue
		}
		overdue++
		if worst == nil || running.begun.Before(worst.begun) {
			worst = running
		}
		if !running.reported {
			running.reported = true
			logger.Error(nil, "A sync does not end; the liveness probe fails, so that another process takes over", "key", running.key, "running", ran.Round(time.Second), "limit", running.limit)
		}
	}
	if worst == nil {
		return nil
	}
	return fmt.Errorf("the sync of %v has been running for %s, which is more than %s; overdue syncs: %d",
		worst.key, time.Since(worst.begun).Round(time.Second), worst.limit, overdue)
}
