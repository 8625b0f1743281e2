// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	// minRetryDelay and maxRetryDelay limit the exponential delay between two tries of one key. There is no rate limit for all keys
	// together: it would make a thousand failing objects wait for each other.
	minRetryDelay = 5 * time.Millisecond
	maxRetryDelay = 60 * time.Second
	// maxInvalidDelay limits the delay after an object was rejected as invalid, which rarely changes by itself.
	maxInvalidDelay = 5 * time.Minute
	// maxOutageDelay limits the delay after an outage of the API server, so that no object still waits for a long delay when the API
	// server works again.
	maxOutageDelay = 5 * time.Second
	// maxOwnerUnknownDelay limits the delay while the API server does not know the owner's kind, which takes seconds.
	maxOwnerUnknownDelay = time.Second

	// drainTimeout is how long a running sync may continue after the context of the loop has ended.
	drainTimeout = 5 * time.Second
)

// SyncFunc brings one key from the observed to the desired state. With a positive requeueAfter it is called again after that time, whatever
// happens before, also after an error; a FairQueue treats that as a resync, a NamespaceQueue as a change. An error is retried with growing delay, unless it is
// Permanent or ErrPostponed.
type SyncFunc[K comparable] func(ctx context.Context, key K) (requeueAfter time.Duration, err error)

// Config of a Loop. Name and Sync are required.
type Config[K comparable] struct {
	// Name of the controller: it names the queue, the log lines and the metrics.
	Name string
	// Sync is called with one key at a time, never twice concurrently with the same key.
	Sync SyncFunc[K]
	// Queue orders the keys that wait for a worker: a FairQueue or a NamespaceQueue. Default: first in, first out.
	Queue workqueue.Queue[K]
}

// Loop is the work queue of a controller and the workers that serve it.
type Loop[K comparable] struct {
	name  string
	sync  SyncFunc[K]
	queue workqueue.TypedDelayingInterface[K]
	// later delays resyncs. It is the queue itself if that does not distinguish them.
	later workqueue.TypedDelayingInterface[K]
	// shared is the order of the queue, if that limits what is synced at the same time.
	shared sharedQueue[K]
	resync func(K)
	// slots reports whether resyncs are made together, in slots of time since begin.
	slots  bool
	begin  time.Time
	retry  workqueue.TypedRateLimiter[K]
	synced []cache.DoneChecker

	logger  klog.Logger
	running *runningSyncs
	metrics syncMetrics
}

// NewLoop returns a Loop that accepts keys immediately and syncs them when it is run.
// Its queue has goroutines of its own that end only with Run.
func NewLoop[K comparable](ctx context.Context, config Config[K]) *Loop[K] {
	logger := klog.LoggerWithName(klog.FromContext(ctx), config.Name)
	base := workqueue.TypedInterface[K](workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Name: config.Name, Queue: config.Queue}))
	order, hinting := config.Queue.(hintReceiver[K])
	queue := base
	if hinting {
		queue = &hintingQueue[K]{base, order, changed}
	}
	l := &Loop[K]{
		name: config.Name,
		sync: config.Sync,
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{
			Name:   config.Name,
			Logger: &logger,
			Queue:  queue,
		}),
		retry:   workqueue.NewTypedItemExponentialFailureRateLimiter[K](minRetryDelay, maxInvalidDelay),
		logger:  logger,
		running: newRunningSyncs(),
		metrics: newSyncMetrics(config.Name),
	}
	l.shared, _ = config.Queue.(sharedQueue[K])
	l.later, l.resync, l.slots, l.begin = l.queue, l.queue.Add, hinting, time.Now()
	if hinting {
		l.later = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{
			Logger: &logger,
			Queue:  &hintingQueue[K]{base, order, resynced},
		})
		l.resync = l.later.Add
	}
	return l
}

// Enqueue asks for a sync of each key as soon as a worker is free.
func (l *Loop[K]) Enqueue(keys ...K) {
	for _, key := range keys {
		l.queue.Add(key)
	}
}

// EnqueueResync asks for a sync of each key although nothing has changed. With a FairQueue, keys that have changed come first.
func (l *Loop[K]) EnqueueResync(keys ...K) {
	for _, key := range keys {
		l.resync(key)
	}
}

// Synced completes when every watched cache is filled and its initial events have become keys.
func (l *Loop[K]) Synced() []cache.DoneChecker { return l.synced }

// CheckSyncs returns an error that names a sync which has been running for longer than any sync should.
func (l *Loop[K]) CheckSyncs() error { return l.running.check(l.logger) }

// Run waits until the caches are filled, then syncs with the number of workers until the context ends. Then it takes no further key,
// lets the running syncs finish for the drain timeout, cancels those that are left, and returns when all workers have ended. The next
// process syncs everything: nothing of the queue needs to be kept.
func (l *Loop[K]) Run(ctx context.Context, workers int) {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), l.name))
	defer l.shutDown()
	if !cache.WaitFor(ctx, "", l.synced...) || ctx.Err() != nil {
		return
	}
	klog.FromContext(ctx).Info("Started", "workers", workers)

	workCtx, cancelWork := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelWork()
	if l.shared != nil {
		l.shared.setWorkers(workers)
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { l.runWorker(ctx, workCtx) })
	}
	<-ctx.Done()
	l.shutDown()
	timer := time.AfterFunc(drainTimeout, func() {
		klog.FromContext(ctx).Info("Running syncs did not finish in time, cancelling them", "timeout", drainTimeout)
		cancelWork()
	})
	defer timer.Stop()
	wg.Wait()
	klog.FromContext(ctx).Info("Stopped")
}

func (l *Loop[K]) shutDown() {
	l.later.ShutDown()
	l.queue.ShutDown()
}

func (l *Loop[K]) runWorker(ctx, workCtx context.Context) {
	for l.processNextWorkItem(ctx, workCtx) {
	}
}

// processNextWorkItem syncs one key and reports whether to continue. It checks the context too, because a queue that is shut down still
// returns its keys.
func (l *Loop[K]) processNextWorkItem(ctx, workCtx context.Context) bool {
	key, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(key)
	if l.shared != nil {
		defer l.shared.release(key)
	}
	if ctx.Err() != nil {
		return false
	}
	workCtx = klog.NewContext(workCtx, klog.LoggerWithValues(klog.FromContext(workCtx), "key", key))
	after, err := l.syncOnce(workCtx, key)
	l.requeue(workCtx, key, after, err)
	return true
}

// requeue decides when the key is synced again. Of several errors that are joined the most severe one decides.
func (l *Loop[K]) requeue(ctx context.Context, key K, after time.Duration, err error) {
	if after > 0 {
		if l.slots {
			after = slotted(time.Since(l.begin), after)
		}
		l.later.AddAfter(key, after)
	}
	if err == nil {
		l.retry.Forget(key)
		return
	}
	logger := klog.FromContext(ctx)
	retries := l.retry.NumRequeues(key)
	limit := maxRetryDelay
	switch severityOf(err) {
	case severityPostponed:
		logger.V(4).Info("Postponed the sync", "reason", err)
		return
	case severityPermanent:
		logger.Error(err, "Sync failed, not retried until the object changes")
		l.retry.Forget(key)
		return
	case severityInvalid:
		utilruntime.HandleErrorWithContext(ctx, err, "Sync failed because the API server rejects an object as invalid, retrying", "retries", retries)
		limit = maxInvalidDelay
	case severityConflict:
		logger.V(4).Info("Sync met an optimistic-lock conflict, retrying", "err", err)
	case severityOwnerUnknown:
		logger.V(2).Info("The API server does not know the owner's kind yet, retrying", "err", err)
		limit = maxOwnerUnknownDelay
	case severityOutage:
		utilruntime.HandleErrorWithContext(ctx, err, "Sync failed because the API server is unavailable, retrying", "retries", retries)
		limit = maxOutageDelay
	case severityPanic:
		panicked, _ := errors.AsType[*panicError](err)
		logger.Error(err, "Sync panicked, retrying", "stack", string(panicked.stack), "retries", retries)
	default:
		utilruntime.HandleErrorWithContext(ctx, err, "Sync failed, retrying", "retries", retries)
	}
	l.queue.AddAfter(key, min(l.retry.When(key), limit))
}

// syncOnce calls Sync, turns a panic into an error, and counts.
func (l *Loop[K]) syncOnce(ctx context.Context, key K) (after time.Duration, err error) {
	start := time.Now()
	ctx, end := l.running.begin(ctx, key)
	defer end()
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: debug.Stack()}
		}
		l.metrics.observe(time.Since(start), err)
	}()
	return l.sync(ctx, key)
}
