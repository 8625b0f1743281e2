// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// workers is the default of the operator, and the number of objects that the bare client works on concurrently.
	workers = 16
	// frequentCollections is in the environment of an operator whose live heap is measured. It changes how soon that is known, not what it is.
	frequentCollections = "GOGC=10"
)

// The metrics that are read.
const (
	syncsTotal  = "millwright_controller_syncs_total"
	queueDepth  = "workqueue_depth"
	hookAnswers = "metacontroller_sync_requests_total"
	cpuSeconds  = "process_cpu_seconds_total"
	liveHeap    = "go_gc_heap_live_bytes"
	collections = "go_gc_cycles_total_gc_cycles_total"
	resident    = "process_resident_memory_bytes"
)

var (
	metricNames = []string{syncsTotal, queueDepth, hookAnswers, cpuSeconds, liveHeap, collections, resident}
	metricLine  = regexp.MustCompile(`^(` + strings.Join(metricNames, "|") + `)(?:\{.*\})? (\S+)\n$`)
	servingLine = regexp.MustCompile(`"Serving /metrics[^"]*" address="?([^"\s]+)"?`)
)

// operator is "millwright controllers" with its default flags, leader election included.
type operator struct {
	*process
	address string
}

// startOperator returns when the operator serves its metrics.
func (t *turn) startOperator(ctx context.Context, kubeconfig string, env []string, flags ...string) (o *operator, err error) {
	args := append([]string{t.operator, "controllers", "--kubeconfig", kubeconfig, "--serving-address", "127.0.0.1:0", "--workers", strconv.Itoa(workers)}, flags...)
	o = &operator{}
	if o.process, err = t.startProcess("operator", env, args...); err != nil {
		return nil, err
	}
	if o.address, err = o.awaitLine(ctx, servingLine); err != nil {
		return nil, errors.Join(err, o.stop())
	}
	return o, nil
}

// metrics are the sums of metrics over their labels.
type metrics map[string]float64

func (o *operator) metrics(ctx context.Context) (metrics, error) {
	content, err := o.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return parseMetrics(string(content))
}

// get returns the body of an answer with the status 200.
func (o *operator) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.address+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reading %s of the operator: %w", path, err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of the operator: %w", path, err)
	}
	return content, nil
}

// sharedCPU returns the seconds that the control plane, all of which is one process, and this program have used. This program is the
// observer of all contenders, and the bare client.
func (c *cluster) sharedCPU(ctx context.Context) (float64, error) {
	content, err := c.kubeClient.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	m, err := parseMetrics(string(content))
	var usage syscall.Rusage
	if err := errors.Join(err, syscall.Getrusage(syscall.RUSAGE_SELF, &usage)); err != nil {
		return 0, err
	}
	return m[cpuSeconds] + time.Duration(usage.Utime.Nano()+usage.Stime.Nano()).Seconds(), nil
}

// parseMetrics reads the text format of Prometheus.
func parseMetrics(text string) (metrics, error) {
	m := metrics{}
	for line := range strings.Lines(text) {
		match := metricLine.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		value, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the metric %q: %w", line, err)
		}
		m[match[1]] += value
	}
	return m, nil
}

// spend returns what the operator does during a call: the rise of its metrics, and the seconds.
func (o *operator) spend(ctx context.Context, call func() error) (rise metrics, seconds float64, err error) {
	before, err := o.metrics(ctx)
	if err != nil {
		return nil, 0, err
	}
	begin := time.Now()
	if err := call(); err != nil {
		return nil, 0, err
	}
	after, err := o.metrics(ctx)
	return after.minus(before), time.Since(begin).Seconds(), err
}

func (m metrics) minus(before metrics) metrics {
	rise := metrics{}
	for name, value := range m {
		rise[name] = value - before[name]
	}
	return rise
}

// awaitSynced waits until that number of keys were synced and none is queued.
func (o *operator) awaitSynced(ctx context.Context, keys int) error {
	return o.awaitMetrics(ctx, fmt.Sprintf("the first sync of %d objects", keys), func(m metrics) bool {
		return m[syncsTotal] >= float64(keys) && m[queueDepth] == 0
	})
}

// awaitAnswers waits until sync hooks have answered that number of calls and no key is queued. A sync may end without a call, before the
// related objects are there.
func (o *operator) awaitAnswers(ctx context.Context, calls int) error {
	return o.awaitMetrics(ctx, fmt.Sprintf("%d answers of sync hooks", calls), func(m metrics) bool {
		return m[hookAnswers] >= float64(calls) && m[queueDepth] == 0
	})
}

// awaitLiveHeap waits for two collections of garbage, after which nothing is left in pools, and returns the bytes that are left.
func (o *operator) awaitLiveHeap(ctx context.Context) (bytes float64, err error) {
	begin, err := o.metrics(ctx)
	if err != nil {
		return 0, err
	}
	err = o.awaitMetrics(ctx, "two collections of garbage", func(m metrics) bool { // reading metrics makes garbage
		bytes = m[liveHeap]
		return m[collections]-begin[collections] >= 2
	})
	return bytes, err
}

func (o *operator) awaitMetrics(ctx context.Context, what string, condition func(metrics) bool) error {
	var last error
	err := poll(ctx, what, func() bool {
		var m metrics
		if m, last = o.metrics(ctx); last != nil {
			return false
		}
		return condition(m)
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
