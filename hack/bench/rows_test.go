// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"millwright.dev/hack/bench/report"
	"millwright.dev/hack/bench/traffic"
)

// measuredOf is what two repetitions with two objects could have measured.
func measuredOf() measurements {
	phase := func(seconds float64, requests int) phaseOutcome {
		return phaseOutcome{seconds: seconds, requests: counters{Statuses: requests, CPUSeconds: seconds / 2}}
	}
	request := traffic.Request{Verb: "update", Resource: "immortalcontainers/status", Object: "web-00001", Code: 200}
	return measurements{
		coldStart:   traffic.Count(slices.Repeat([]traffic.Request{request}, 4)),
		recovery:    traffic.Count(slices.Repeat([]traffic.Request{request}, 5)),
		operators:   []outcome{{phase(11, 8), phase(26, 10), 0.01}, {phase(22, 8), phase(12, 8), 0.03}},
		bares:       []outcome{{phase(10, 8), phase(20, 10), 0.004}, {phase(20, 8), phase(10, 8), 0.004}},
		usages:      []operatorUsage{{cpuSeconds: 0.01, cpuPerSync: 0.0005, syncsPerRecovery: 7}, {cpuSeconds: 0.03, cpuPerSync: 0.0007}},
		deployments: []float64{9, 8},
		idleCores:   0.004,
		heap:        map[int]float64{0: 1 << 20, 2: 1<<20 + 20<<10, 4: 1<<20 + 80<<10},
		large:       phaseOutcome{seconds: 7, requests: counters{Events: 2}},
		largeCount:  3,
		starts:      []float64{3},
		reads:       []float64{1},
		startCPU:    []float64{2},
	}
}

func TestTheRowsTellTheirValuesGoalsAndVerdicts(t *testing.T) {
	o := options{count: 2, large: 4, repetitions: 2, rows: map[string]bool{}}
	for _, row := range allRows {
		o.rows[row] = true
	}
	type figures struct {
		value, goal float64 // a goal of 0 is none
		verdict     report.Verdict
	}
	want := map[string]figures{
		"cold start of 2, until all are Ready":                 {16.5, 18, report.Reached},
		"recovery of 2 deleted Pods, until all are Ready":      {19, 18, report.Missed},
		"the same recovery by a Deployment":                    {8.5, 0, report.NotDecided},
		"overhead in CPU, both phases, control plane included": {(18.51/15.004 + 17.03/15.004) / 2, 1.2, report.Reached},
		"CPU per object, both phases":                          {10, 0, report.NotDecided},
		"CPU per sync, recovery":                               {0.6, 1, report.Reached},
		"cold start of 3 at once, until all are Ready":         {7, 0, report.NotDecided},
		"cold start/  events that were lost":                   {1, 0, report.Missed},
		"idle CPU with 2 objects":                              {0.4, 1, report.Reached},
		"heap per object with 2 objects":                       {10, 10, report.Reached},
		"heap per object with 4 objects":                       {20, 10, report.Missed},
		"start with 4 objects, until the first sync of all":    {3, 1.3, report.Missed},
		"cold start/  overhead over the bare client":           {1.1, 1.2, report.Reached},
		"cold start/  requests per object, at most":            {4, 4, report.Reached},
		"cold start/  requests per object, mean":               {4, 4, report.Reached},
		"recovery o/  overhead over the bare client":           {1.25, 1.2, report.Within},
		"recovery o/  requests per object, at most":            {5, 4, report.Missed},
		"recovery o/  requests per object, mean":               {4.5, 4, report.Missed},
	}
	phase := ""
	for _, row := range makeReport(o, measuredOf()).Rows {
		name := row.Name
		if strings.HasPrefix(name, "  ") {
			name = phase + "/" + name
		} else {
			phase = name[:10]
		}
		got := figures{value: row.Value, verdict: row.Verdict}
		if row.Goal != nil {
			got.goal = *row.Goal
		}
		const precision = 1e-9
		if want := want[name]; got.verdict != want.verdict || max(got.value-want.value, want.value-got.value, got.goal-want.goal, want.goal-got.goal) > precision {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("these rows are missing: %q", slices.Sorted(maps.Keys(want)))
	}
}

func TestRowsThatWereNotAskedForAreNotThere(t *testing.T) {
	rows := makeReport(options{count: 2, rows: map[string]bool{rowIdle: true}}, measuredOf()).Rows
	if len(rows) != 1 || rows[0].Name != "idle CPU with 2 objects" {
		t.Errorf("got %+v", rows)
	}
}
