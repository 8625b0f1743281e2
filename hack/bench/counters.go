// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
)

// counters are what the API server has counted of the requests that a start or a recovery consists of, whoever sent them.
// During a run that is the operator or the bare client alone: the rest of the control plane posts its events to another
// group. Counting so costs a run nothing.
type counters struct {
	// Statuses of ImmortalContainers, Pods created, events created and folded.
	Statuses, Pods, Events int
	// CPUSeconds of the control plane, all of which is one process.
	CPUSeconds float64
}

func (c *cluster) counters(ctx context.Context) (counters, error) {
	text, err := c.kubeClient.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return counters{}, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	return parseCounters(string(text))
}

func parseCounters(text string) (c counters, err error) {
	const name, cpu = "apiserver_request_total", "process_cpu_seconds_total"
	// All metrics of an API server are much to parse.
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, cpu+" ") {
			lines.WriteString(line)
		}
	}
	metrics, err := parseMetrics(strings.NewReader(lines.String()))
	if err != nil {
		return c, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	c.CPUSeconds = metrics.sum(cpu)
	for _, sample := range metrics[name] {
		count := int(sample.value)
		switch sample.requestKind() {
		case "PUT immortalcontainers.flugel.it immortalcontainers status":
			c.Statuses += count
		case "POST  pods ":
			c.Pods += count
		case "POST  events ", "PATCH  events ":
			c.Events += count
		}
	}
	return c, nil
}

func (s sample) requestKind() string {
	return strings.Join([]string{s.labels["verb"], s.labels["group"], s.labels["resource"], s.labels["subresource"]}, " ")
}

func (c counters) minus(earlier counters) counters {
	return counters{c.Statuses - earlier.Statuses, c.Pods - earlier.Pods, c.Events - earlier.Events, c.CPUSeconds - earlier.CPUSeconds}
}

func (c counters) total() int { return c.Statuses + c.Pods + c.Events }

func (c counters) String() string {
	return fmt.Sprintf("%d statuses, %d Pods, %d events; CPU of the control plane %.1f s", c.Statuses, c.Pods, c.Events, c.CPUSeconds)
}
