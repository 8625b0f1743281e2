// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"k8s.io/utils/ptr"

	"millwright.dev/hack/bench/report"
)

// What we have set ourselves, somewhat above what was measured when it was set, on one slow core: these rows are there to be
// noticed when they grow. An object is an ImmortalContainer with its Pod.
const (
	cpuPerSyncGoal    = 1.0  // milliseconds, requests included
	idleGoal          = 1.0  // percent of a core
	heapPerObjectGoal = 10.0 // KiB
	startGoal         = 1.3  // times what it takes to read all that is there
)

// cpuRows are of both phases of ImmortalContainers; none if they were not measured.
func cpuRows(c *contest) []report.Row {
	if c == nil {
		return nil
	}
	var operator, bare, perObject, perObjectBare, perSync []float64
	for i, usage := range c.usages {
		operator = append(operator, c.operators[i].cpuSeconds())
		bare = append(bare, c.bares[i].cpuSeconds())
		perObject = append(perObject, milli*c.operators[i].clientCPU/float64(c.count))
		perObjectBare = append(perObjectBare, milli*c.bares[i].clientCPU/float64(c.count))
		perSync = append(perSync, milli*usage.cpuPerSync)
	}
	all := sampled("overhead in CPU, both phases, control plane included", report.Times, report.Ratios(operator, bare))
	all.Goal, all.Floor = ptr.To(overheadGoal), ptr.To(overheadMost)
	all.Note = fmt.Sprintf("%.1f s and %.1f s", report.Median(operator), report.Median(bare))
	object := sampled("CPU per object, both phases", report.Milliseconds, perObject)
	object.Note = fmt.Sprintf("the bare client takes %.2f ms", report.Median(perObjectBare))
	sync := sampled("CPU per sync, recovery", report.Milliseconds, perSync)
	sync.Goal = ptr.To(cpuPerSyncGoal)
	if len(c.usages) > 0 {
		sync.Note = fmt.Sprintf("%.1f syncs per object", c.usages[0].syncsPerObject)
	}
	return []report.Row{all, object, sync}
}

func restRows(o options, m measurements) (rows []report.Row) {
	if o.rows[rowIdle] {
		rows = append(rows, report.Row{Name: fmt.Sprintf("idle CPU with %d objects", o.count), Unit: report.Percent, Value: 100 * m.idleCores,
			Goal: ptr.To(idleGoal), Note: "of one core"})
	}
	if o.rows[rowHeap] {
		for _, objects := range []int{o.count, o.large} {
			perObject := (m.heap[objects] - m.heap[0]) / float64(objects) / (1 << 10)
			rows = append(rows, report.Row{Name: fmt.Sprintf("heap per object with %d objects", objects), Unit: report.Kibibytes, Value: perObject,
				Goal: ptr.To(heapPerObjectGoal), Note: fmt.Sprintf("%.1f MiB in all, %.1f without objects", m.heap[objects]/(1<<20), m.heap[0]/(1<<20))})
		}
	}
	if m.largeCount > 0 && (o.rows[rowHeap] || o.rows[rowStart]) {
		rows = append(rows,
			report.Row{Name: fmt.Sprintf("cold start of %d at once, until all are Ready", m.largeCount), Unit: report.Seconds, Value: m.large.seconds[0]},
			report.Row{Name: "  events that were lost", Unit: report.Events, Value: float64(max(0, m.largeCount-m.large.events)), Goal: ptr.To(0.0)})
	}
	if o.rows[rowStart] {
		start := sampled(fmt.Sprintf("start with %d objects, until the first sync of all", o.large), report.Seconds, m.starts)
		start.Goal = ptr.To(startGoal * report.Median(m.reads))
		start.Note = fmt.Sprintf("only to read them takes %.2f s; CPU %.2f s", report.Median(m.reads), report.Median(m.startCPU))
		rows = append(rows, start)
	}
	return rows
}
