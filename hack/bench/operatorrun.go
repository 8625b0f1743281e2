// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"millwright.dev/hack/bench/traffic"
)

// operatorRun is the operator as a contender.
type operatorRun struct {
	*bench
	kubeconfig string
	fail       func(error)
	process    *operator
	proxy      *traffic.Proxy       // nil where nothing is recorded
	recorded   [2][]traffic.Request // of the cold start and of the recovery

	before operatorMetrics // the recovery
	usage  operatorUsage
}

// operatorUsage is what a run took of the operator's process.
type operatorUsage struct {
	cpuSeconds       float64 // of the whole run
	cpuPerSync       float64 // seconds, in the recovery
	syncsPerRecovery float64 // of one object
}

func (r *operatorRun) coldStart(ctx context.Context) (begin time.Time, err error) {
	begin = time.Now()
	r.process, err = r.startOperator(ctx, r.kubeconfig)
	if err == nil {
		r.process.onEnd(r.fail)
	}
	return begin, err
}

func (r *operatorRun) recovery(ctx context.Context) (err error) {
	if r.proxy != nil {
		if r.recorded[0], err = r.proxy.Take(); err != nil {
			return err
		}
	}
	r.before, err = r.process.metrics(ctx)
	return err
}

func (r *operatorRun) finish(ctx context.Context) error {
	after, err := r.process.metrics(ctx)
	if err != nil {
		return err
	}
	syncs := after.syncs - r.before.syncs
	r.usage = operatorUsage{
		cpuSeconds:       after.cpuSeconds,
		cpuPerSync:       (after.cpuSeconds - r.before.cpuSeconds) / syncs,
		syncsPerRecovery: syncs / float64(r.count),
	}
	if r.proxy != nil {
		r.recorded[1], err = r.proxy.Take()
	}
	return err
}

func (r *operatorRun) stop() error {
	if r.process == nil {
		return nil
	}
	return r.process.stop()
}
