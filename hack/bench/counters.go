// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// counters are what the API server has counted of the requests that a phase consists of, whoever sent them. Counting so costs
// a run nothing. Events are not among them: the rest of the control plane posts some too.
type counters struct {
	// requests by their verb, in the API server's words, and their resource: PUT immortalcontainers/status.
	requests map[string]int
	// cpuSeconds of the control plane, all of which is one process.
	cpuSeconds float64
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
	c.requests, c.cpuSeconds = map[string]int{}, metrics.sum(cpu)
	for _, sample := range metrics[name] {
		c.requests[sample.requestKind()] += int(sample.value)
	}
	return c, nil
}

func (s sample) requestKind() string {
	kind := s.labels["verb"] + " " + s.labels["resource"]
	if s.labels["subresource"] != "" {
		kind += "/" + s.labels["subresource"]
	}
	return kind
}

func (c counters) minus(earlier counters) counters {
	requests := map[string]int{}
	for kind, count := range c.requests {
		requests[kind] = count - earlier.requests[kind]
	}
	return counters{requests, c.cpuSeconds - earlier.cpuSeconds}
}

// only those requests.
func (c counters) only(kinds []string) counters {
	requests := map[string]int{}
	for _, kind := range kinds {
		if count := c.requests[kind]; count > 0 {
			requests[kind] = count
		}
	}
	return counters{requests, c.cpuSeconds}
}

func (c counters) total() (total int) {
	for _, count := range c.requests {
		total += count
	}
	return total
}

func (c counters) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(c.requests)) {
		parts = append(parts, fmt.Sprintf("%d %s", c.requests[kind], kind))
	}
	return fmt.Sprintf("%s; CPU of the control plane %.1f s", strings.Join(parts, ", "), c.cpuSeconds)
}
