// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"

	"millwright.dev/hack/bench/bareclient"
	"millwright.dev/hack/bench/traffic"
)

// operatorRun is the operator as a contender.
type operatorRun struct {
	*turn
	*workload
	kubeconfig string
	proxy      *traffic.Proxy // nil where nothing is recorded
	recording  *traffic.Recording

	process     *operator
	total, last metrics // since the process was started, and in the last phase
}

func (r *operatorRun) prepare(ctx context.Context, n *namespace) (err error) {
	if r.proxy == nil {
		return nil
	}
	r.recording = &traffic.Recording{Resource: r.resource, Namespace: n.name}
	r.recording.Objects, err = n.identities(ctx, r.workload)
	return err
}

func (r *operatorRun) begin(ctx context.Context, phase int) (err error) {
	if phase > 0 {
		return nil
	}
	if r.process, err = r.startOperator(ctx, r.kubeconfig, nil, r.flags...); err != nil {
		return err
	}
	r.total, err = r.process.metrics(ctx)
	return err
}

func (r *operatorRun) end(ctx context.Context) error {
	now, err := r.process.metrics(ctx)
	if err != nil {
		return err
	}
	r.last = now.minus(r.total)
	r.total = now
	if r.proxy == nil {
		return nil
	}
	if err := sleep(ctx, calmPause); err != nil { // what is requested late counts too
		return err
	}
	requests, err := r.proxy.Take()
	r.recording.Phases = append(r.recording.Phases, requests)
	return err
}

func (r *operatorRun) stop() error {
	if r.process == nil {
		return nil
	}
	return r.process.stop()
}

func (r *operatorRun) cpuSeconds() float64 { return r.total[cpuSeconds] }

// bareRun is the bare client as a contender. It is prepared before the first phase begins: its time is that of its requests.
type bareRun struct {
	*turn
	*workload
	recording *traffic.Recording
	client    *bareclient.Client
	done      chan error // of the phase
}

func (r *bareRun) prepare(_ context.Context, n *namespace) (err error) {
	r.client, err = bareclient.New(r.config, r.waits, n.name, cmp.Or(r.workers, workers), *r.recording)
	return err
}

func (r *bareRun) begin(ctx context.Context, phase int) error {
	r.done = make(chan error, 1)
	go func() {
		err := r.client.Run(ctx, phase)
		if err != nil {
			r.fail(fmt.Errorf("the bare client failed: %w", err))
		}
		r.done <- err
	}()
	return nil
}

func (r *bareRun) end(context.Context) error { return <-r.done }

func (r *bareRun) stop() error { return nil }

// cpuSeconds is counted with this program's.
func (r *bareRun) cpuSeconds() float64 { return 0 }
