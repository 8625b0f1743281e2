// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"k8s.io/utils/ptr"

	"millwright.dev/hack/bench/report"
)

// What was promised of the farm: times what the API server takes for what lies below.
const (
	farmListGoal    = 1.5
	farmRequestGoal = 2.5
	farmFanOutGoal  = 2.0
	// idleWatchGoal we have set ourselves, in KiB, somewhat above what was measured: it is there to be noticed when it grows.
	idleWatchGoal = 80.0
)

// farmRows are those that were asked for.
func farmRows(o options, m farmOutcome) (rows []report.Row) {
	if o.rows[rowFarm] {
		for _, l := range m.podLists {
			rows = append(rows, listRow(o, l))
		}
		rows = append(rows, listRow(o, m.llamaList),
			duelRow("creation of a Llama, over a LlamaRecord", farmRequestGoal, m.creates),
			duelRow("get of a Llama, over a LlamaRecord", farmRequestGoal, m.gets))
	}
	if o.rows[rowFarmWatch] {
		rows = append(rows, toldRows("a Pod", "FarmPods", "Pods", m.pods)...)
		rows = append(rows, toldRows("a Llama", "Llamas", "LlamaRecords", m.llamas)...)
		rows = append(rows, idleWatchRow(o, "FarmPods", m.idlePods), idleWatchRow(o, "Llamas", m.idleLlamas))
	}
	return rows
}

func listRow(o options, l *listContest) report.Row {
	row := duelRow(fmt.Sprintf(l.name, o.farmObjects), farmListGoal, duel{l.took, l.theirTook})
	row.Note += fmt.Sprintf("; %.1f MiB and %.1f MiB", float64(l.size)/mebi, float64(l.theirSize)/mebi)
	return row
}

func duelRow(name string, goal float64, d duel) report.Row {
	row := sampled(name, report.Times, report.Ratios(d.took, d.theirTook))
	row.Goal = ptr.To(goal)
	row.Note = fmt.Sprintf("%.2f ms and %.2f ms", milli*report.Median(d.took), milli*report.Median(d.theirTook))
	return row
}

func toldRows(changed, ours, theirs string, c fanOutContest) []report.Row {
	cpu := sampled("  in CPU, control plane included", report.Times, report.Ratios(c.cpu, c.theirCPU))
	cpu.Note = fmt.Sprintf("%.1f ms and %.1f ms", milli*report.Median(c.cpu), milli*report.Median(c.theirCPU))
	return []report.Row{duelRow(fmt.Sprintf("change of %s, until %d watchers of %s have seen it, over %s", changed, listeners, ours, theirs), farmFanOutGoal, c.duel), cpu}
}

func idleWatchRow(o options, kind string, bytes float64) report.Row {
	return report.Row{Name: fmt.Sprintf("heap and stacks per idle watch of %s, of %d", kind, o.farmWatches), Unit: report.Kibibytes, Value: bytes / kibi, Goal: ptr.To(idleWatchGoal)}
}
