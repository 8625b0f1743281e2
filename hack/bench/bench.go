// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"millwright.dev/hack/bench/traffic"
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
}

// measurements are the raw material of the table.
type measurements struct {
	coldStart, recovery traffic.Counts // of the recorded run
	operators, bares    []outcome      // one of each for every repetition, side by side
	usages              []operatorUsage
	deployments         []float64 // seconds of a recovery
	idleCores           float64
	heap                map[int]float64 // bytes, by the number of objects
	starts, reads       []float64       // seconds, at the large number of objects
	startCPU            []float64       // seconds
	large               phaseOutcome    // the cold start of many objects at once
	largeCount          int             // how many they were
	kubernetes, load    string
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
	// A Deployment's Pods of before and after are there at the same time.
	if b.cluster, err = startCluster(ctx, b.dir, max(2*b.count, b.count+b.large)); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, b.cluster.stop()) }()
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
		{b.rows[rowRuns], b.record},
		{b.rows[rowRuns] || b.rows[rowDeployment], b.compete},
		{b.rows[rowIdle] || b.rows[rowHeap] || b.rows[rowStart], b.measureAtRest},
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

// record lets the operator do its work once through a proxy, for the number of its requests and for the bare client.
func (b *bench) record(ctx context.Context) (err error) {
	b.say("Recording the requests of a cold start and a recovery of %d", b.count)
	proxy, err := traffic.StartProxy(b.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	kubeconfig, err := b.proxyKubeconfig(proxy.URL)
	if err != nil {
		return err
	}
	run := &operatorRun{bench: b, kubeconfig: kubeconfig, proxy: proxy}
	result, err := b.run(ctx, func(_ *population, fail func(error)) (contender, error) {
		run.fail = fail
		return run, nil
	})
	if err != nil {
		return fmt.Errorf("recording the operator's requests: %w", err)
	}
	for i, counts := range []*traffic.Counts{&b.measured.coldStart, &b.measured.recovery} {
		*counts = traffic.Count(run.recorded[i])
		if _, err := saveRecording(b.dir, recordings[i], run.recorded[i]); err != nil {
			return err
		}
	}
	b.say("  cold start %.2f s: %s", result.coldStart.seconds, b.measured.coldStart)
	b.say("  recovery %.2f s: %s", result.recovery.seconds, b.measured.recovery)
	return nil
}

// recordings are named after the phases.
var recordings = []string{"cold-start", "recovery"}

// proxyKubeconfig is for a client without credentials: the proxy has them.
func (b *bench) proxyKubeconfig(url string) (path string, err error) {
	path = filepath.Join(b.dir, "proxy.kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: url}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	config.CurrentContext = "proxy"
	return path, clientcmd.WriteToFile(*config, path)
}

// compete lets the contenders do the same work in turn. Their order changes with every repetition, so that what one leaves
// behind does not always hit the same.
func (b *bench) compete(ctx context.Context) error {
	var contenders []func(context.Context) error
	if b.rows[rowRuns] {
		contenders = append(contenders, b.operatorRuns, b.bareRuns)
	}
	if b.rows[rowDeployment] {
		contenders = append(contenders, b.deploymentRuns)
	}
	for i := range b.repetitions {
		for k := range contenders {
			if err := contenders[(i+k)%len(contenders)](ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) operatorRuns(ctx context.Context) error {
	run := &operatorRun{bench: b, kubeconfig: b.kubeconfig()}
	result, err := b.run(ctx, func(_ *population, fail func(error)) (contender, error) {
		run.fail = fail
		return run, nil
	})
	if err != nil {
		return fmt.Errorf("a run of the operator: %w", err)
	}
	result.clientCPU = run.usage.cpuSeconds
	b.measured.operators = append(b.measured.operators, result)
	b.measured.usages = append(b.measured.usages, run.usage)
	b.sayRun("operator", result)
	return nil
}

func (b *bench) bareRuns(ctx context.Context) error {
	var child *replay
	result, err := b.run(ctx, func(p *population, fail func(error)) (_ contender, err error) {
		var paths []string
		for _, name := range recordings {
			paths = append(paths, filepath.Join(b.dir, name+".json"))
		}
		child, err = b.startReplay(ctx, p, fail, paths)
		return child, err
	})
	if err != nil {
		return fmt.Errorf("a run of the bare client: %w", err)
	}
	result.clientCPU = child.cpuSeconds()
	b.measured.bares = append(b.measured.bares, result)
	b.sayRun("bare client", result)
	return nil
}

func (b *bench) sayRun(who string, o outcome) {
	b.say("%s, CPU %.2f s", who, o.clientCPU)
	b.say("  cold start %.2f s, events posted after %.2f s: %v", o.coldStart.seconds, o.coldStart.events, o.coldStart.requests)
	b.say("  recovery %.2f s, events posted after %.2f s: %v", o.recovery.seconds, o.recovery.events, o.recovery.requests)
}
