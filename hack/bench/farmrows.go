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
