// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"context"
	"errors"
	"fmt"

	"millwright.dev/pkg/inflight"
)

// The limits of all logs of a process with the memory limit of the shipped Deployment; see [inflight.NewMemoryLimit]. Pods may run forever, so logs of running
// Pods and of ended ones do not share a limit: a log that may not be read while its Pod runs is read afterwards.
const (
	maxRunning, maxEnded = 400, 100
	// These are for logs with large outputs: more than 32 KiB, and up to 512 KiB and one line of 1.5 MiB that is being read.
	maxLargeRunning, maxLargeEnded = 8, 8
)

// errNoPlace means that too many logs have large outputs.
var errNoPlace = errors.New("there is no place for large outputs")

// logLimits limit how many logs are in memory, and how many of them have large outputs. A log is in memory until its phase is forgotten.
type logLimits struct{ logs, large limitPair }

// limitPair is a limit of logs of running Pods, and one of logs of ended Pods. The keys are namespaces.
type limitPair struct {
	running, ended *inflight.Limit[string]
	// why is why the log of an ended Pod waits, for users to read.
	why string
}

func newLogLimits() logLimits {
	return logLimits{
		logs:  newLimitPair(maxRunning, maxEnded, "logs of ended Pods"),
		large: newLimitPair(maxLargeRunning, maxLargeEnded, "logs of ended Pods with outputs of more than 32 KiB"),
	}
}

func newLimitPair(running, ended int, what string) limitPair {
	pair := limitPair{running: inflight.NewMemoryLimit[string](running), ended: inflight.NewMemoryLimit[string](ended)}
	ofNamespace, total := pair.ended.Numbers()
	pair.why = fmt.Sprintf("%d %s are read at a time, %d of them for the ActionSets of one namespace", total, what, ofNamespace)
	return pair
}

// awaitTurn waits until the log may be read. It returns false if the context has ended before.
func (l *logReader) awaitTurn(ctx context.Context) bool {
	if l.endTurn == nil {
		l.endTurn = l.acquire(ctx, l.limits.logs)
	}
	return l.endTurn != nil && ctx.Err() == nil
}

// acquire acquires one unit. It returns nil if the context has ended before.
func (l *logReader) acquire(ctx context.Context, limit limitPair) (release func()) {
	if !isClosed(l.podEnded) {
		running, stop := l.untilEnded(ctx)
		release, err := limit.running.Acquire(running, l.namespace)
		stop()
		if err == nil {
			return release
		}
	}
	release, ok := limit.ended.TryAcquire(l.namespace)
	if !ok {
		l.setProblem(limit.why)
		release, _ = limit.ended.Acquire(ctx, l.namespace)
	}
	return release
}

// tryTakePlace takes a place for large outputs, unless the log has one. It does not wait, because the stream of the log is open.
func (l *logReader) tryTakePlace() error {
	if l.endPlace != nil {
		return nil
	}
	limit := l.limits.large.running
	if isClosed(l.podEnded) {
		limit = l.limits.large.ended
	}
	var ok bool
	if l.endPlace, ok = limit.TryAcquire(l.namespace); !ok {
		return errNoPlace
	}
	return nil
}

// untilEnded returns a context that ends with the Pod.
func (l *logReader) untilEnded(ctx context.Context) (context.Context, func()) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		select {
		case <-l.podEnded:
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// forget releases what the log has in memory.
func (l *logReader) forget() {
	for _, release := range []func(){l.endPlace, l.endTurn} {
		if release != nil {
			release()
		}
	}
}
