// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// unit of a value.
type unit string

const (
	seconds      unit = "s"
	milliseconds unit = "ms"
	times        unit = "x"
	percent      unit = "%" // of one core
	kibibytes    unit = "KiB"
	mebibytes    unit = "MiB"
	count        unit = ""

	milli = 1e3
	mebi  = 1 << 20
)

func (u unit) format(value float64) string {
	number := strconv.FormatFloat(value, 'f', 2, 64)
	switch u {
	case count:
		return strings.TrimSuffix(number, ".00")
	case times, percent:
		return number + string(u)
	}
	return number + " " + string(u)
}

// row is one line of the table. Smaller values are better.
type row struct {
	Name string
	Unit unit
	Goal float64
	// Most is what must be reached where the goal is not; 0 where that is the goal.
	Most float64
}

// sample is one value of a row.
type sample struct {
	Value float64
	Note  string
}

// result is a row with its values.
type result struct {
	row
	samples  []sample
	baseline []sample // of the operator of --baseline
}

// report is the table.
type report []*result

func (r *report) add(declared row, s sample, baseline bool) {
	i := slices.IndexFunc(*r, func(known *result) bool { return known.Name == declared.Name })
	if i < 0 {
		i = len(*r)
		*r = append(*r, &result{row: declared})
	}
	if result := (*r)[i]; baseline {
		result.baseline = append(result.baseline, s)
	} else {
		result.samples = append(result.samples, s)
	}
}

// table writes the rows as text, with medians. Values above their goals are marked. With a baseline there are its value and the ratio to it.
func (r *report) table(w io.Writer) error {
	compared := slices.ContainsFunc(*r, func(result *result) bool { return len(result.baseline) > 0 })
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	heads := []string{"row", "value", "goal"}
	if compared {
		heads = append(heads, "baseline", "ratio")
	}
	fmt.Fprintln(table, strings.Join(append(heads, "remarks"), "\t"))
	for _, result := range *r {
		value, baseline := median(values(result.samples)), median(values(result.baseline))
		cells := []string{result.Name, result.Unit.format(value), result.Unit.format(result.Goal)}
		if compared {
			ratio := "-"
			if baseline > 0 {
				ratio = fmt.Sprintf("%.2f", value/baseline)
			}
			cells = append(cells, result.Unit.format(baseline), ratio)
		}
		fmt.Fprintln(table, strings.Join(append(cells, strings.Join(result.remarks(value), "; ")), "\t"))
	}
	return table.Flush()
}

func (r *result) remarks(value float64) (remarks []string) {
	switch {
	case value <= r.Goal:
	case value <= r.Most:
		remarks = append(remarks, fmt.Sprintf("above the goal, at most %s allowed", r.Unit.format(r.Most)))
	default:
		remarks = append(remarks, "MISSED")
	}
	// The note is that of the sample in the middle.
	sorted := slices.SortedFunc(slices.Values(r.samples), func(a, b sample) int { return cmp.Compare(a.Value, b.Value) })
	if least, most := r.Unit.format(sorted[0].Value), r.Unit.format(sorted[len(sorted)-1].Value); least != most {
		remarks = append(remarks, fmt.Sprintf("%s to %s in %d turns", least, most, len(sorted)))
	}
	if note := sorted[(len(sorted)-1)/2].Note; note != "" {
		remarks = append(remarks, note)
	}
	return remarks
}

func values(samples []sample) (values []float64) {
	for _, s := range samples {
		values = append(values, s.Value)
	}
	return values
}

// median returns the value in the middle; of two their mean, of none 0.
func median(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// percentile returns the sample that a percentage of all does not exceed; of none 0.
func percentile(samples []float64, of int) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[(len(sorted)*of+99)/100-1]
}
