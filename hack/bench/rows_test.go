// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"millwright.dev/hack/bench/report"
	"millwright.dev/hack/bench/traffic"
)

// contestOf is what two repetitions with two objects could have measured: the seconds of each phase, and its requests.
func contestOf(w *workload, recorded []traffic.Counts, operators, bares []outcome) *contest {
	return &contest{
		workload: w, recorded: recorded, operators: operators, bares: bares,
		usages: []operatorUsage{{cpuSeconds: 0.01, cpuPerSync: 0.0005, syncsPerObject: 7}, {cpuSeconds: 0.03, cpuPerSync: 0.0007}},
	}
}

func outcomeOf(clientCPU float64, phases ...phaseOutcome) outcome { return outcome{phases, clientCPU} }

// phaseOf a number of requests, two of which are events.
func phaseOf(requests int, seconds ...float64) phaseOutcome {
	return phaseOutcome{seconds: seconds, events: 2, requests: counters{map[string]int{"PUT immortalcontainers/status": requests - 2}, seconds[0] / 2}}
}

// requestsOf one object.
func requestsOf(count int) traffic.Counts {
	request := traffic.Request{Verb: "update", Resource: "immortalcontainers/status", Object: "web-00001", Code: 200}
	return traffic.Count(slices.Repeat([]traffic.Request{request}, count))
}

// measuredOf is what a run with two objects could have measured.
func measuredOf() measurements {
	return measurements{
		containers: contestOf(containersOf(2), []traffic.Counts{requestsOf(4), requestsOf(5)},
			[]outcome{outcomeOf(0.01, phaseOf(8, 11), phaseOf(10, 26)), outcomeOf(0.03, phaseOf(8, 22), phaseOf(8, 12))},
			[]outcome{outcomeOf(0.004, phaseOf(8, 10), phaseOf(10, 20)), outcomeOf(0.004, phaseOf(8, 20), phaseOf(8, 10))}),
		machines: contestOf(machinesOf(2), []traffic.Counts{requestsOf(7)},
			[]outcome{outcomeOf(0, phaseOf(14, 3))}, []outcome{outcomeOf(0, phaseOf(14, 2))}),
		apps: contestOf(appsOf(2), []traffic.Counts{requestsOf(6)},
			[]outcome{outcomeOf(0, phaseOf(12, 2, 5))}, []outcome{outcomeOf(0, phaseOf(12, 2, 4))}),
		actions: &actionsOutcome{
			start: contestOf(actionsOf(2), []traffic.Counts{requestsOf(18)},
				[]outcome{outcomeOf(1, phaseOf(36, 5))}, []outcome{outcomeOf(0.5, phaseOf(36, 4))}),
			latencies: []float64{0.03, 0.02}, roundTrips: []float64{0.01, 0.02},
		},
		idleCores:  0.004,
		heap:       map[int]float64{0: 1 << 20, 2: 1<<20 + 20<<10, 4: 1<<20 + 80<<10},
		large:      phaseOutcome{seconds: []float64{7}, events: 2},
		largeCount: 3,
		hosted: hosted{
			start: contestOf(parentsOf(2, nil), []traffic.Counts{requestsOf(3)},
				[]outcome{outcomeOf(0, phaseOf(6, 2.5))}, []outcome{outcomeOf(0, phaseOf(6, 2))}),
			emptyStart: 0.5,
			fanOuts:    []float64{1.5, 1.3}, bareFanOuts: []float64{1, 1},
			unchanged: []unchangedOutcome{
				{children: 1, cpuPerSync: 0.00015, syncs: 100}, {children: 100, cpuPerSync: 0.0005, syncs: 100},
				{children: 1000, cpuPerSync: 0.011, syncs: 100, requests: requestsOf(2)},
			},
			resync:     resyncOutcome{perSecond: 3, barePerSecond: 60},
			slowResync: resyncOutcome{perSecond: 1, barePerSecond: 2},
			strays:     []strayOutcome{{100, 0.00004}, {500, 0.00006}},
			repairs:    []float64{0.01, 0.02}, roundTrips: []float64{0.005, 0.006},
			caughtUp: 61,
			memory:   memoryOutcome{objects: 400, json: 100, heap: 150, empty: 10, resident: 300},
		},
		farm: farmOutcome{
			podLists: []*listContest{
				{name: "list of %d FarmPods as by kubectl get, over Pods", took: []float64{3}, theirTook: []float64{2}},
				{name: "list of %d FarmPods as JSON, over Pods", took: []float64{2}, theirTook: []float64{4}, size: 1 << 20, theirSize: 3 << 20},
			},
			llamaList: &listContest{name: "list of %d Llamas, over LlamaRecords", took: []float64{4, 2}, theirTook: []float64{1, 1}},
			creates:   duel{took: []float64{0.003}, theirTook: []float64{0.002}},
			gets:      duel{took: []float64{0.003}, theirTook: []float64{0.001}},
		},
		starts:   []float64{3},
		reads:    []float64{1},
		startCPU: []float64{2},
	}
}

func TestTheRowsTellTheirValuesGoalsAndVerdicts(t *testing.T) {
	o := options{count: 2, large: 4, machines: 2, apps: 2, actions: 2, parents: 2, farmObjects: 2, repetitions: 2, outage: time.Minute, rows: map[string]bool{}}
	for _, row := range allRows {
		o.rows[row] = true
	}
	type figures struct {
		value, goal float64 // a goal of 0 is none
		verdict     report.Verdict
	}
	want := map[string]figures{
		"cold start of 2 Machines of 4 switches, until all are Ready":    {3, 2.4, report.Missed},
		"cold start of 2 M/  overhead over the bare client":              {1.5, 1.2, report.Missed},
		"cold start of 2 M/  requests per object, at most":               {7, 7, report.Reached},
		"cold start of 2 M/  requests per object, mean":                  {7, 7, report.Reached},
		"cold start of 2 HelloApps, until all Deployments are applied":   {2, 2.4, report.Reached},
		"cold start of 2 H/  overhead over the bare client":              {1, 1.2, report.Reached},
		"cold start of 2 H/  until all HelloApps are Ready":              {5, 0, report.NotDecided},
		"cold start of 2 H/  requests per object, at most":               {6, 5, report.Missed},
		"cold start of 2 H/  requests per object, mean":                  {6, 5, report.Missed},
		"cold start of 2 ActionSets of 3 phases, until all are complete": {5, 4.8, report.Missed},
		"cold start of 2 A/  overhead over the bare client":              {1.25, 1.2, report.Within},
		"cold start of 2 A/  requests per object, at most":               {18, 18, report.Reached},
		"cold start of 2 A/  requests per object, mean":                  {18, 18, report.Reached},
		"cold start of 2 A/  overhead in CPU, control plane included":    {3.5 / 2.5, 1.2, report.Missed},
		"ActionSets one by one, until the first effect, p99":             {30, 0, report.NotDecided},
		"cold start of 2 parents, until all have a child and a status":   {2.5, 2.4, report.Missed},
		"cold start of 2 p/  overhead over the bare client":              {1.25, 1.2, report.Within},
		"cold start of 2 p/  requests per object, at most":               {3, 3, report.Reached},
		"cold start of 2 p/  requests per object, mean":                  {3, 3, report.Reached},
		"cold start of 2 p/  of which until a process serves any":        {0.5, 0, report.NotDecided},
		"2 children of one parent, until all are there":                  {1.4, 1.25, report.Missed},
		"2 children of one/  overhead over the bare client":              {1.4, 1.25, report.Missed},
		"CPU per sync with 1 unchanged children":                         {0.15, 0.1, report.Within},
		"CPU per sync with 100 unchanged children":                       {0.5, 0.5, report.Reached},
		"CPU per sync with 1000 unchanged children":                      {11, 5, report.Missed},
		"requests of 100 such syncs, 1 children":                         {0, 0, report.Reached},
		"requests of 100 such syncs, 100 children":                       {0, 0, report.Reached},
		"requests of 100 such syncs, 1000 children":                      {2, 0, report.Missed},
		"resync of 6 parents each second, between two of one":            {2, 1.1, report.Missed},
		"resync of 6 paren/  by a hook that takes 20ms":                  {6, 3.3, report.Missed},
		"CPU per change that concerns none of 100 parents":               {0.04, 0.05, report.Reached},
		"CPU per change that concerns none of 500 parents":               {0.06, 0.05, report.Missed},
		"repair of an edited child beside churn, p99":                    {20, 18, report.Missed},
		"hook gone for 1m0s, until 2 parents have caught up":             {61, 60, report.Missed},
		"live heap for 400 objects over their JSON":                      {1.4, 1.2, report.Within},
		"live heap for 400/  RSS of the process over their JSON":         {3, 1.6, report.Missed},
		"cold start of 2, until all are Ready":                           {16.5, 18, report.Reached},
		"recovery of 2 deleted Pods, until all are Ready":                {19, 18, report.Missed},
		"overhead in CPU, both phases, control plane included":           {(18.51/15.004 + 17.03/15.004) / 2, 1.2, report.Reached},
		"CPU per object, both phases":                                    {10, 0, report.NotDecided},
		"CPU per sync, recovery":                                         {0.6, 1, report.Reached},
		"list of 2 FarmPods as by kubectl get, over Pods":                {1.5, 1.5, report.Reached},
		"list of 2 FarmPods as JSON, over Pods":                          {0.5, 1.5, report.Reached},
		"list of 2 Llamas, over LlamaRecords":                            {3, 1.5, report.Missed},
		"creation of a Llama, over a LlamaRecord":                        {1.5, 2.5, report.Reached},
		"get of a Llama, over a LlamaRecord":                             {3, 2.5, report.Missed},
		"cold start of 3 at once, until all are Ready":                   {7, 0, report.NotDecided},
		"cold start of 3 a/  events that were lost":                      {1, 0, report.Missed},
		"idle CPU with 2 objects":                                        {0.4, 1, report.Reached},
		"heap per object with 2 objects":                                 {10, 10, report.Reached},
		"heap per object with 4 objects":                                 {20, 10, report.Missed},
		"start with 4 objects, until the first sync of all":              {3, 1.3, report.Missed},
		"cold start of 2, /  overhead over the bare client":              {1.1, 1.2, report.Reached},
		"cold start of 2, /  requests per object, at most":               {4, 4, report.Reached},
		"cold start of 2, /  requests per object, mean":                  {4, 4, report.Reached},
		"recovery of 2 del/  overhead over the bare client":              {1.25, 1.2, report.Within},
		"recovery of 2 del/  requests per object, at most":               {5, 4, report.Missed},
		"recovery of 2 del/  requests per object, mean":                  {4.5, 4, report.Missed},
	}
	phase := ""
	for _, row := range makeReport(o, measuredOf()).Rows {
		name := row.Name
		if strings.HasPrefix(name, "  ") {
			name = phase + "/" + name
		} else {
			phase = name[:17]
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
	rows := makeReport(options{count: 2, rows: map[string]bool{rowIdle: true}}, measurements{idleCores: 0.004}).Rows
	if len(rows) != 1 || rows[0].Name != "idle CPU with 2 objects" {
		t.Errorf("got %+v", rows)
	}
}

func TestTheRowsOfAnObjectThatTookTooMuchNameItAndItsRequests(t *testing.T) {
	m := measuredOf()
	for _, row := range contestRows(m.apps) {
		if row.Name == "  requests per object, at most" {
			if want := "above for 1 of 2 objects, of which web-00001: 6 update immortalcontainers/status"; row.Note != want {
				t.Errorf("got %q, want %q", row.Note, want)
			}
			return
		}
	}
	t.Error("there is no such row")
}
