// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"millwright.dev/hack/bench/report"
)

const latenessGoal = 1.0 // seconds

// makingFlip are the requests that a flip needs.
var makingFlip = []string{forStamp, forReserve, forFlip, forClose}

// flipRows are those of switches that were flipped at once; none if they were not.
func flipRows(f *flipsOutcome) []report.Row {
	if f == nil {
		return nil
	}
	p := f.pace
	amiss := report.Row{Name: "  flips lost, or too many", Unit: report.Flips, Value: float64(p.amiss), Goal: ptr.To(0.0), Note: fmt.Sprintf("%d were made", p.flips)}
	early := report.Row{Name: "  flips that came early", Unit: report.Flips, Value: float64(p.early), Goal: ptr.To(0.0)}
	early.Note = fmt.Sprintf("by more than %v; the first came %.2f s after its switch was up, two of a Machine no nearer than %.2f s",
		watchTolerance, p.soonest.Seconds(), p.closest.Seconds())
	late := report.Row{Name: "  lateness over the pace, p99", Unit: report.Seconds, Value: report.Percentile(p.lateness, 99), Goal: ptr.To(latenessGoal)}
	late.Note = fmt.Sprintf("median %.2f s, at most %.2f s", report.Median(p.lateness), report.Percentile(p.lateness, 100))
	return []report.Row{
		{Name: fmt.Sprintf("flips of %d switches at once, until all are down", f.switches), Unit: report.Seconds, Value: f.seconds,
			Note: fmt.Sprintf("the pace allows for %.0f s", flipRules.duration().Seconds())},
		amiss, early, late, flipRequestsRow(f),
	}
}

func flipRequestsRow(f *flipsOutcome) report.Row {
	row := report.Row{Name: "  requests per flip, mean", Unit: report.Requests, Goal: ptr.To(float64(len(makingFlip)))}
	each := func(purpose string) float64 { return float64(f.purposes[purpose]) / float64(max(1, f.recorded)) }
	var making, others []string
	for _, purpose := range slices.Sorted(maps.Keys(f.purposes)) {
		text := fmt.Sprintf("%.2f %s", each(purpose), purpose)
		switch {
		case purpose == forEvents:
			continue
		case slices.Contains(makingFlip, purpose):
			making = append(making, text)
		default:
			others = append(others, text)
		}
		row.Value += each(purpose)
	}
	row.Note = strings.Join(making, ", ")
	if len(others) > 0 {
		row.Note += "; besides " + strings.Join(others, ", ")
	}
	row.Note += fmt.Sprintf("; not counted: %.2f events", each(forEvents))
	return row
}
