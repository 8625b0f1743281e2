// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"k8s.io/utils/ptr"

	"millwright.dev/hack/bench/report"
)

// actionRows are of ActionSets; none if they were not measured.
func actionRows(a *actionsOutcome) []report.Row {
	if a == nil {
		return nil
	}
	var operator, bare []float64
	for i := range a.start.operators {
		operator = append(operator, a.start.operators[i].cpuSeconds())
		bare = append(bare, a.start.bares[i].cpuSeconds())
	}
	cpu := sampled("  overhead in CPU, control plane included", report.Times, report.Ratios(operator, bare))
	cpu.Goal, cpu.Floor = ptr.To(overheadGoal), ptr.To(overheadMost)
	cpu.Note = fmt.Sprintf("%.1f s and %.1f s", report.Median(operator), report.Median(bare))

	scaled := func(samples []float64, of int) float64 { return milli * report.Percentile(samples, of) }
	latency := report.Row{
		Name: "ActionSets one by one, until the first effect, p99", Unit: report.Milliseconds, Value: scaled(a.latencies, 99),
		Note: fmt.Sprintf("p50 %.1f ms; until they are seen themselves p50 %.1f ms, p99 %.1f ms", scaled(a.latencies, 50), scaled(a.roundTrips, 50), scaled(a.roundTrips, 99)),
	}
	return append(contestRows(a.start), cpu, latency)
}
