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
	objects    int
	flags      []string
	kubeconfig string
	fail       func(error)
	process    *operator
	proxy      *traffic.Proxy      // nil where nothing is recorded
	recorded   [][]traffic.Request // of each phase

	before operatorMetrics // the last phase
	usage  operatorUsage
}

// operatorUsage is what a run took of the operator's process.
type operatorUsage struct {
	cpuSeconds     float64 // of the whole run
	cpuPerSync     float64 // seconds, in the last phase
	syncsPerObject float64 // likewise
}

func (r *operatorRun) begin(ctx context.Context, phase int) (begin time.Time, err error) {
	begin = time.Now()
	if phase > 0 {
		if err := r.take(); err != nil {
			return begin, err
		}
		r.before, err = r.process.metrics(ctx)
		return begin, err
	}
	r.process, err = r.startControllers(ctx, r.kubeconfig, nil, r.flags...)
	if err == nil {
		r.process.onEnd(r.fail)
	}
	return begin, err
}

// take what was recorded of a phase.
func (r *operatorRun) take() error {
	if r.proxy == nil {
		return nil
	}
	requests, err := r.proxy.Take()
	r.recorded = append(r.recorded, requests)
	return err
}

func (r *operatorRun) finish(ctx context.Context) error {
	after, err := r.process.metrics(ctx)
	if err != nil {
		return err
	}
	syncs := after.syncs - r.before.syncs
	r.usage = operatorUsage{
		cpuSeconds:     after.cpuSeconds,
		cpuPerSync:     (after.cpuSeconds - r.before.cpuSeconds) / syncs,
		syncsPerObject: syncs / float64(r.objects),
	}
	return r.take()
}

func (r *operatorRun) stop() error {
	if r.process == nil {
		return nil
	}
	return r.process.stop()
}
