// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report turns what was measured into a table: one row for each scenario, with its value and its goal.
package report

import "strconv"

// Unit of a value. Its text stands behind the number.
type Unit string

// The units of all rows.
const (
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
	Times        Unit = "x"
	Percent      Unit = "%" // of one core
	Kibibytes    Unit = "KiB"
	Requests     Unit = "requests"
	Events       Unit = "events"
	Flips        Unit = "flips"
)

// decimals that are worth printing: what lies behind them is noise.
var decimals = map[Unit]int{Seconds: 2, Milliseconds: 2, Times: 2, Percent: 1, Kibibytes: 1, Requests: 2, Events: 0, Flips: 0}

func (u Unit) format(value float64) string {
	places := decimals[u]
	if u == Requests && value == float64(int64(value)) {
		places = 0
	}
	number := strconv.FormatFloat(value, 'f', places, 64)
	switch u {
	case Times, Percent:
		return number + string(u)
	case Requests, Events, Flips:
		return number
	}
	return number + " " + string(u)
}

// Row is one line of the table. Smaller values are better.
type Row struct {
	Name  string  `json:"row"`
	Unit  Unit    `json:"unit"`
	Value float64 `json:"value"`
	// Goal is nil for a row that is there to be compared with.
	Goal *float64 `json:"goal,omitempty"`
	// Floor is what must be reached where the goal is not; nil where that is the same.
	Floor *float64 `json:"floor,omitempty"`
	// Samples of which Value is the median; empty where there is but one.
	Samples []float64 `json:"samples,omitempty"`
	// Note says what the reader needs to know beside.
	Note string `json:"note,omitempty"`
	// Verdict is filled in by New.
	Verdict Verdict `json:"verdict,omitempty"`
}

// Verdict on a row that has a goal.
type Verdict string

// The verdicts.
const (
	Reached    Verdict = "reached"
	Within     Verdict = "above the goal" // but not above the floor
	Missed     Verdict = "missed"
	NotDecided Verdict = "" // there is no goal
)

func verdict(r Row) Verdict {
	switch {
	case r.Goal == nil:
		return NotDecided
	case r.Value <= *r.Goal:
		return Reached
	case r.Floor != nil && r.Value <= *r.Floor:
		return Within
	}
	return Missed
}
