// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// workers is the operator's default, and so how much the bare client does at a time.
const workers = 16

// bench is one run of this program.
type bench struct {
	options
	*cluster
	dir        string
	workers    int
	namespaces int
	begin      time.Time
	progress   io.Writer
	measured   measurements

	// hook of all CompositeControllers; nil until it is needed.
	hook        *process
	hookAddress string
}

// measurements are the raw material of the table.
type measurements struct {
	containers, machines, apps *contest // nil where they were not asked for
	actions                    *actionsOutcome
	hosted                     hosted
	farm                       farmOutcome
	idleCores                  float64
	heap                       map[int]float64 // bytes, by the number of objects
	starts, reads              []float64       // seconds, at the large number of objects
	startCPU                   []float64       // seconds
	large                      phaseOutcome    // the cold start of many objects at once
	largeCount                 int             // how many they were
	kubernetes, load           string
}

// runBench measures what the options ask for, on a control plane of its own, and leaves nothing behind.
func runBench(ctx context.Context, o options, progress io.Writer) (m measurements, err error) {
	b := &bench{options: o, workers: workers, begin: time.Now(), progress: progress}
	b.measured.heap = map[int]float64{}
	if b.dir, err = os.MkdirTemp("", "mw-bench-"); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	b.measured.load = loadAverage()
	if advice := busyAdvice(b.measured.load, runtime.NumCPU()); advice != "" {
		b.say("%s", advice)
	}
	b.say("Starting the control plane")
	if b.cluster, err = startCluster(ctx, b.dir, o.pods()); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, b.stopHook(), b.cluster.stop()) }()
	version, err := b.kubeClient.Discovery().ServerVersion()
	if err != nil {
		return m, fmt.Errorf("asking the API server for its version: %w", err)
	}
	b.measured.kubernetes = version.GitVersion

	for _, stage := range []struct {
		wanted bool
		do     func(context.Context) error
	}{
		{b.rows[rowHeap], func(ctx context.Context) error { return b.measureHeap(ctx, 0) }},
		{b.rows[rowRuns], b.measureContainers},
		{b.rows[rowMachines], b.measureMachines},
		{b.rows[rowApps], b.measureApps},
		{b.rows[rowActions], b.measureActions},
		{b.rows[rowHosting], b.measureHosting},
		{b.rows[rowHostingSyncs], b.measureSyncs},
		{b.rows[rowHostingChurn], b.measureChurn},
		{b.rows[rowHostingOutage], b.measureOutage},
		{b.rows[rowHostingMemory], b.measureMemory},
		{b.rows[rowFarm], b.measureFarm},
		{o.wantsRest(), b.measureAtRest},
	} {
		if !stage.wanted {
			continue
		}
		if err := stage.do(ctx); err != nil {
			return m, err
		}
	}
	return b.measured, nil
}

// say tells those who wait what is being done.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "%6.1f s  %s\n", time.Since(b.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (b *bench) measureContainers(ctx context.Context) error {
	b.measured.containers = &contest{workload: containersOf(b.count)}
	return b.hold(ctx, b.measured.containers)
}

func (b *bench) measureMachines(ctx context.Context) error {
	b.measured.machines = &contest{workload: machinesOf(b.machines)}
	return b.hold(ctx, b.measured.machines)
}

func (b *bench) measureApps(ctx context.Context) error {
	b.measured.apps = &contest{workload: appsOf(b.apps)}
	return b.hold(ctx, b.measured.apps)
}
