// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is the outcome of one run, on one control plane.
type Report struct {
	// Setting says what the figures depend on: the machine, the versions, the sizes.
	Setting map[string]string `json:"setting"`
	Rows    []Row             `json:"rows"`
}

// New judges the rows.
func New(setting map[string]string, rows []Row) Report {
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].Verdict = verdict(rows[i])
	}
	return Report{Setting: setting, Rows: rows}
}

// Table writes the rows as text. A goal that was not reached is marked.
func (r Report) Table(w io.Writer) error {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "row\tvalue\tgoal\t")
	for _, row := range r.Rows {
		goal := "-"
		if row.Goal != nil {
			goal = row.Unit.format(*row.Goal)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", row.Name, row.Unit.format(row.Value), goal, strings.Join(remarks(row), "; "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	// The padding of a row without remarks.
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func remarks(row Row) (remarks []string) {
	switch row.Verdict {
	case Missed:
		remarks = append(remarks, "MISSED")
	case Within:
		remarks = append(remarks, fmt.Sprintf("above the goal, at most %s allowed", row.Unit.format(*row.Floor)))
	}
	if len(row.Samples) > 1 {
		least, most := row.Unit.format(slices.Min(row.Samples)), row.Unit.format(slices.Max(row.Samples))
		if least != most {
			remarks = append(remarks, fmt.Sprintf("%s to %s in %d runs", least, most, len(row.Samples)))
		}
	}
	if row.Note != "" {
		remarks = append(remarks, row.Note)
	}
	return remarks
}

// JSON writes the whole report.
func (r Report) JSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
