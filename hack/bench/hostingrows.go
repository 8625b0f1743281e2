// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"k8s.io/utils/ptr"

	"millwright.dev/hack/bench/report"
)

// What was promised of CompositeControllers. Where there are two, the second is what must be reached.
const (
	fanOutGoal      = 1 / 0.8 // times what a bare client takes
	resyncGoal      = 1.1     // times what the hook and the period allow for
	strayGoal       = 0.05    // milliseconds of CPU
	repairGoal      = 3.0     // round trips
	caughtUpGoal    = 60.0    // seconds
	hostedHeapGoal  = 1.2     // times the JSON
	hostedHeapMost  = 1.5
	hostedRSSGoal   = 1.6
	hostedRSSMost   = 2.5
	unchangedFactor = 2 // between the goal and what must be reached
)

// unchangedGoals are milliseconds of CPU by the number of children.
var unchangedGoals = map[int]float64{1: 0.1, 100: 0.5, 1000: 5}

// hosted is what was measured of CompositeControllers.
type hosted struct {
	start                *contest
	emptyStart           float64   // seconds
	fanOuts, bareFanOuts []float64 // seconds, side by side
	unchanged            []unchangedOutcome
	resync, slowResync   resyncOutcome
	strays               []strayOutcome
	repairs, roundTrips  []float64 // seconds
	caughtUp             float64   // seconds
	outageCores          float64
	memory               memoryOutcome
}

// hostingRowsOf are those that were asked for.
func hostingRowsOf(o options, m hosted) (rows []report.Row) {
	if o.rows[rowHosting] {
		rows = append(rows, contestRows(m.start)...)
		rows = append(rows, fanOutRows(o, m)...)
	}
	if o.rows[rowHostingSyncs] {
		for _, u := range m.unchanged {
			rows = append(rows, unchangedRows(u)...)
		}
		rows = append(rows, resyncRow(fmt.Sprintf("resync of %d parents each second, between two of one", resyncedPerParent*o.parents), resyncedPerParent*o.parents, m.resync),
			resyncRow(fmt.Sprintf("  by a hook that takes %v", slowAnswer), resyncedPerParent*o.parents, m.slowResync))
	}
	if o.rows[rowHostingChurn] {
		for _, s := range m.strays {
			rows = append(rows, report.Row{Name: fmt.Sprintf("CPU per change that concerns none of %d parents", s.parents), Unit: report.Milliseconds,
				Value: milli * s.cpuPerChange, Goal: ptr.To(strayGoal)})
		}
		rows = append(rows, repairRow(m))
	}
	if o.rows[rowHostingOutage] {
		rows = append(rows, report.Row{Name: fmt.Sprintf("hook gone for %v, until %d parents have caught up", o.outage, o.parents), Unit: report.Seconds,
			Value: m.caughtUp, Goal: ptr.To(caughtUpGoal), Note: fmt.Sprintf("meanwhile %.1f %% of a core", 100*m.outageCores)})
	}
	if o.rows[rowHostingMemory] {
		rows = append(rows, memoryRows(m.memory)...)
	}
	return rows
}

const milli = 1e3

func fanOutRows(o options, m hosted) []report.Row {
	start := report.Row{Name: "  of which until a process serves any", Unit: report.Seconds, Value: m.emptyStart}
	duration := sampled(fmt.Sprintf("%d children of one parent, until all are there", o.parents), report.Seconds, m.fanOuts)
	duration.Goal = ptr.To(fanOutGoal * report.Median(m.bareFanOuts))
	duration.Note = bareNote(m.bareFanOuts)
	overhead := sampled("  overhead over the bare client", report.Times, report.Ratios(m.fanOuts, m.bareFanOuts))
	overhead.Goal = ptr.To(fanOutGoal)
	overhead.Note = fmt.Sprintf("%.0f children a second", float64(o.parents)/report.Median(m.fanOuts))
	return []report.Row{start, duration, overhead}
}

func unchangedRows(u unchangedOutcome) []report.Row {
	goal := unchangedGoals[u.children]
	return []report.Row{
		{Name: fmt.Sprintf("CPU per sync with %d unchanged children", u.children), Unit: report.Milliseconds, Value: milli * u.cpuPerSync,
			Goal: ptr.To(goal), Floor: ptr.To(unchangedFactor * goal), Note: fmt.Sprintf("mean of %.0f syncs", u.syncs)},
		{Name: fmt.Sprintf("requests of %.0f such syncs, %d children", u.syncs, u.children), Unit: report.Requests, Value: u.requests.Mean(1), Goal: ptr.To(0.0), Note: u.requests.String()},
	}
}

// resyncRow is the time between two syncs of a parent, which is a second, or as long as the hook takes to answer for all.
func resyncRow(name string, parents int, r resyncOutcome) report.Row {
	allowed := max(1, float64(parents)/r.barePerSecond)
	return report.Row{
		Name: name, Unit: report.Seconds, Value: float64(parents) / r.perSecond, Goal: ptr.To(resyncGoal * allowed),
		Note: fmt.Sprintf("%.0f syncs/s, %.3f ms of CPU each; the hook alone answers %.0f/s", r.perSecond, milli*r.cpuPerSync, r.barePerSecond),
	}
}

// repairRow compares with the time until those who watch have seen the edit.
func repairRow(m hosted) report.Row {
	scaled := func(samples []float64, of int) float64 { return milli * report.Percentile(samples, of) }
	return report.Row{
		Name: "repair of an edited child beside churn, p99", Unit: report.Milliseconds, Value: scaled(m.repairs, 99), Goal: ptr.To(repairGoal * scaled(m.roundTrips, 99)),
		Note: fmt.Sprintf("median %.1f ms; a bare round trip takes %.1f ms, p99 %.1f ms", scaled(m.repairs, 50), scaled(m.roundTrips, 50), scaled(m.roundTrips, 99)),
	}
}

func memoryRows(m memoryOutcome) []report.Row {
	note := fmt.Sprintf("%.1f MiB JSON", m.json/mebi)
	return []report.Row{
		{Name: fmt.Sprintf("live heap for %d objects over their JSON", m.objects), Unit: report.Times, Value: (m.heap - m.empty) / m.json,
			Goal: ptr.To(hostedHeapGoal), Floor: ptr.To(hostedHeapMost), Note: fmt.Sprintf("%s; %.1f MiB, without objects %.1f MiB", note, m.heap/mebi, m.empty/mebi)},
		{Name: "  RSS of the process over their JSON", Unit: report.Times, Value: m.resident / m.json,
			Goal: ptr.To(hostedRSSGoal), Floor: ptr.To(hostedRSSMost), Note: fmt.Sprintf("%.1f MiB, without objects %.1f MiB", m.resident/mebi, m.emptyStart/mebi)},
	}
}
