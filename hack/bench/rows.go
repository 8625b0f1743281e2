// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"strconv"

	"k8s.io/utils/ptr"

	"millwright.dev/hack/bench/report"
	"millwright.dev/hack/bench/traffic"
)

// What was promised.
const (
	requestsGoal = 4.0 // for each object, in a cold start and in a recovery
	overheadGoal = 1.2 // times what the bare client takes
	overheadMost = 1.3
)

func makeReport(o options, m measurements) report.Report {
	var rows []report.Row
	if o.rows[rowRuns] {
		coldStart := func(o outcome) phaseOutcome { return o.coldStart }
		recovery := func(o outcome) phaseOutcome { return o.recovery }
		rows = append(rows, phaseRows(fmt.Sprintf("cold start of %d, until all are Ready", o.count), coldStart, m, m.coldStart, o.count)...)
		rows = append(rows, phaseRows(fmt.Sprintf("recovery of %d deleted Pods, until all are Ready", o.count), recovery, m, m.recovery, o.count)...)
	}
	if o.rows[rowDeployment] {
		rows = append(rows, sampled("the same recovery by a Deployment", report.Seconds, m.deployments))
	}
	if o.rows[rowRuns] {
		rows = append(rows, cpuRows(o, m)...)
	}
	rows = append(rows, restRows(o, m)...)
	return report.New(map[string]string{
		"objects":     strconv.Itoa(o.count),
		"large":       strconv.Itoa(o.large),
		"repetitions": strconv.Itoa(o.repetitions),
		"kubernetes":  m.kubernetes,
		"go":          runtime.Version(),
		"platform":    runtime.GOOS + "/" + runtime.GOARCH,
		"cores":       strconv.Itoa(runtime.NumCPU()),
		"workers":     strconv.Itoa(workers),
		"load":        m.load,
	}, rows)
}

func sampled(name string, unit report.Unit, samples []float64) report.Row {
	return report.Row{Name: name, Unit: unit, Value: report.Median(samples), Samples: samples}
}

// phaseRows are the time of a phase, its overhead, and its requests.
func phaseRows(name string, of func(outcome) phaseOutcome, m measurements, recorded traffic.Counts, count int) []report.Row {
	var operator, bare, requests []float64
	for i := range m.operators {
		operator = append(operator, of(m.operators[i]).seconds)
		bare = append(bare, of(m.bares[i]).seconds)
		requests = append(requests, float64(of(m.operators[i]).requests.total())/float64(count))
	}
	duration := sampled(name, report.Seconds, operator)
	duration.Goal = ptr.To(overheadGoal * report.Median(bare))
	duration.Note = fmt.Sprintf("the bare client takes %.2f s", report.Median(bare))

	overhead := sampled("  overhead over the bare client", report.Times, report.Ratios(operator, bare))
	overhead.Goal, overhead.Floor = ptr.To(overheadGoal), ptr.To(overheadMost)

	object, kinds := recorded.Most()
	most := report.Row{Name: "  requests per object, at most", Unit: report.Requests, Value: float64(len(kinds)), Goal: ptr.To(requestsGoal)}
	if above := recorded.Above(requestsGoal); above > 0 {
		most.Note = fmt.Sprintf("above for %d of %d objects, of which %s: %v", above, count, object, kinds)
	}
	mean := sampled("  requests per object, mean", report.Requests, requests)
	mean.Goal = ptr.To(requestsGoal)
	mean.Note = fmt.Sprintf("when recorded %.2f", recorded.Mean(count))
	return []report.Row{duration, overhead, most, mean}
}
