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

// What was promised: times what the bare client takes.
const (
	overheadGoal = 1.2
	overheadMost = 1.3
)

func makeReport(o options, m measurements) report.Report {
	rows := contestRows(m.containers)
	rows = append(rows, cpuRows(m.containers)...)
	rows = append(rows, contestRows(m.machines)...)
	rows = append(rows, contestRows(m.apps)...)
	rows = append(rows, actionRows(m.actions)...)
	rows = append(rows, hostingRowsOf(o, m.hosted)...)
	rows = append(rows, farmRows(o, m.farm)...)
	rows = append(rows, restRows(o, m)...)
	return report.New(map[string]string{
		"objects":     strconv.Itoa(o.count),
		"large":       strconv.Itoa(o.large),
		"machines":    strconv.Itoa(o.machines),
		"helloapps":   strconv.Itoa(o.apps),
		"actions":     strconv.Itoa(o.actions),
		"parents":     strconv.Itoa(o.parents),
		"manyParents": strconv.Itoa(o.manyParents),
		"cached":      strconv.Itoa(o.objects),
		"farmObjects": strconv.Itoa(o.farmObjects),
		"outage":      o.outage.String(),
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

// contestRows are those of all phases; none if there was no contest.
func contestRows(c *contest) (rows []report.Row) {
	if c == nil {
		return nil
	}
	for i := range c.phases {
		rows = append(rows, phaseRows(c, i)...)
	}
	return rows
}

// phaseRows are the time of a phase, its overhead, and its requests.
func phaseRows(c *contest, number int) []report.Row {
	ph, recorded := c.phases[number], c.recorded[number]
	times := func(outcomes []outcome, milestone int) (seconds []float64) {
		for _, o := range outcomes {
			seconds = append(seconds, o.phases[number].seconds[milestone])
		}
		return seconds
	}
	operator, bare := times(c.operators, 0), times(c.bares, 0)
	duration := sampled(fmt.Sprintf(ph.title, c.count), report.Seconds, operator)
	duration.Goal = ptr.To(overheadGoal * report.Median(bare))
	duration.Note = bareNote(bare)

	overhead := sampled("  overhead over the bare client", report.Times, report.Ratios(operator, bare))
	overhead.Goal, overhead.Floor = ptr.To(overheadGoal), ptr.To(overheadMost)
	rows := []report.Row{duration, overhead}

	for i, m := range ph.milestones[1:] {
		later := sampled(fmt.Sprintf("  until all %s are %s", m.kind, m.mark), report.Seconds, times(c.operators, i+1))
		later.Note = bareNote(times(c.bares, i+1))
		rows = append(rows, later)
	}
	return append(rows, requestRows(ph, recorded, c, number)...)
}

func bareNote(seconds []float64) string {
	return fmt.Sprintf("the bare client takes %.2f s", report.Median(seconds))
}

func requestRows(ph phase, recorded traffic.Counts, c *contest, number int) []report.Row {
	goal := float64(ph.requestsGoal)
	object, kinds := recorded.Most()
	most := report.Row{Name: "  requests per object, at most", Unit: report.Requests, Value: float64(len(kinds)), Goal: ptr.To(goal)}
	most.Note = traffic.Summary(kinds)
	if above := recorded.Above(ph.requestsGoal); above > 0 {
		most.Note = fmt.Sprintf("above for %d of %d objects, of which %s: %s", above, c.count, object, most.Note)
	}
	var requests []float64
	for _, o := range c.operators {
		requests = append(requests, float64(o.phases[number].sent())/float64(c.count))
	}
	mean := sampled("  requests per object, mean", report.Requests, requests)
	mean.Goal = ptr.To(goal)
	mean.Note = fmt.Sprintf("when recorded %.2f", recorded.Mean(c.count))
	return []report.Row{most, mean}
}
