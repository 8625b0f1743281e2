// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"
)

// servingLine is where the operator tells which port it has got.
var servingLine = regexp.MustCompile(`"Serving /metrics[^"]*" address="?([^"\s]+)"?`)

// operator is "millwright controllers" with its default flags, leader election included.
type operator struct {
	*process
	started time.Time
	address string
}

// startOperator returns at once; await what it is to do.
func (b *bench) startOperator(ctx context.Context, kubeconfig string, env ...string) (*operator, error) {
	return b.startControllers(ctx, kubeconfig, env)
}

// startControllers is startOperator with flags.
func (b *bench) startControllers(ctx context.Context, kubeconfig string, env []string, flags ...string) (*operator, error) {
	o := &operator{started: time.Now()}
	args := append([]string{binary("millwright"), "controllers",
		"--kubeconfig", kubeconfig, "--serving-address", "127.0.0.1:0", "--workers", strconv.Itoa(b.workers)}, flags...)
	var err error
	if o.process, err = startProcess(b.dir, "operator", env, args...); err != nil {
		return nil, err
	}
	err = o.await(ctx, "the operator to serve metrics", func() bool {
		log, err := os.ReadFile(o.log)
		if match := servingLine.FindSubmatch(log); err == nil && match != nil {
			o.address = string(match[1])
		}
		return o.address != ""
	})
	if err != nil {
		return nil, errors.Join(err, o.stop())
	}
	return o, nil
}

// awaitSynced waits until so many keys were synced and none is left to do.
func (o *operator) awaitSynced(ctx context.Context, keys int) error {
	var last error
	err := o.await(ctx, fmt.Sprintf("the first sync of %d objects", keys), func() bool {
		var m operatorMetrics
		if m, last = o.metrics(ctx); last != nil {
			return false
		}
		return m.syncs >= float64(keys) && m.queued == 0
	})
	return errors.Join(err, last)
}

// awaitLeading waits until that controller of the operator works, where there is nothing to be worked on.
func (o *operator) awaitLeading(ctx context.Context, controller string) error {
	started := regexp.MustCompile(`"Started" logger="` + controller + `"`)
	return o.await(ctx, "the operator to lead and to start its controllers", func() bool {
		log, err := os.ReadFile(o.log)
		return err == nil && started.Match(log)
	})
}

// operatorMetrics are what we need of /metrics.
type operatorMetrics struct {
	syncs, queued float64
	// answers that hooks have given.
	answers    float64
	cpuSeconds float64
	// liveHeap is what the last garbage collection has left, in bytes.
	liveHeap    float64
	collections float64
	// resident is the memory of the process, in bytes.
	resident float64
}

func (o *operator) metrics(ctx context.Context) (m operatorMetrics, err error) {
	samples, err := scrape(ctx, "http://"+o.address+"/metrics")
	if err != nil {
		return m, fmt.Errorf("reading the metrics of the operator: %w", err)
	}
	return operatorMetrics{
		syncs:       samples.sum("millwright_controller_syncs_total"),
		answers:     samples.sum("metacontroller_sync_requests_total"),
		queued:      samples.sum("workqueue_depth"),
		cpuSeconds:  samples.sum("process_cpu_seconds_total"),
		liveHeap:    samples.sum("go_gc_heap_live_bytes"),
		collections: samples.sum("go_gc_cycles_total_gc_cycles_total"),
		resident:    samples.sum("process_resident_memory_bytes"),
	}, nil
}
