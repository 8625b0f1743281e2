// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// The groups of rows.
const (
	rowRuns       = "runs"
	rowDeployment = "deployment"
	rowIdle       = "idle"
	rowHeap       = "heap"
	rowStart      = "start"
)

var allRows = []string{rowRuns, rowDeployment, rowIdle, rowHeap, rowStart}

// options are what the command line says.
type options struct {
	rows        map[string]bool
	count       int
	large       int
	repetitions int
	idle        time.Duration
	timeout     time.Duration
	jsonFile    string
}

const usage = `usage: bench [flags]

Measures the operator on a control plane of its own, which it starts and removes, and prints a table: row, value, goal. Run it
by make bench, which builds what it needs.

`

// parseOptions reports mistakes to the output too.
func parseOptions(args []string, output io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.Usage = func() {
		fmt.Fprint(output, usage)
		flags.PrintDefaults()
	}
	rows := flags.String("rows", strings.Join(allRows, ","), "what to measure: runs are cold start and recovery by the operator and by the bare client, with their\n"+
		"requests; deployment is the recovery by a Deployment; idle is CPU at rest; heap is memory for each object;\n"+
		"start is the start with objects that exist")
	flags.IntVar(&o.count, "count", 1000, "number of ImmortalContainers")
	flags.IntVar(&o.large, "large", 10000, "number of ImmortalContainers for start and heap")
	flags.IntVar(&o.repetitions, "repetitions", 3, "how often each time is measured; the median counts")
	flags.DurationVar(&o.idle, "idle", 20*time.Second, "how long to measure CPU at rest")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Minute, "when to give up")
	flags.StringVar(&o.jsonFile, "json", "", "file to write the figures to as JSON")
	quick := flags.Bool("quick", false, "measure few objects, once: to see that it works, in about a minute; what is said by --count and the like wins")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *quick {
		o.hurry(flags)
	}
	if o.rows, err = parseRows(*rows); err == nil {
		err = o.validate(flags.NArg())
	}
	if err != nil {
		fmt.Fprintf(output, "bench: %v\n", err)
	}
	return o, err
}

// hurry makes everything small that was not said.
func (o *options) hurry(flags *flag.FlagSet) {
	said := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { said[f.Name] = true })
	for name, change := range map[string]func(){
		"count":       func() { o.count = 50 },
		"large":       func() { o.large = 200 },
		"repetitions": func() { o.repetitions = 1 },
		"idle":        func() { o.idle = 2 * time.Second },
	} {
		if !said[name] {
			change()
		}
	}
}

func parseRows(list string) (map[string]bool, error) {
	rows := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(allRows, name) {
			return nil, fmt.Errorf("--rows: there is no %q; there are %s", name, strings.Join(allRows, ", "))
		}
		rows[name] = true
	}
	return rows, nil
}

func (o options) validate(arguments int) error {
	switch {
	case arguments > 0:
		return errors.New("there are flags, but no arguments")
	case o.count < 1 || o.count > 99_999 || o.large > 99_999:
		return errors.New("--count and --large must be between 1 and 99999")
	case o.large < o.count:
		return fmt.Errorf("--large=%d must not be less than --count=%d", o.large, o.count)
	case o.repetitions < 1:
		return errors.New("--repetitions must be at least 1")
	case o.idle <= 0 || o.timeout <= 0:
		return errors.New("--idle and --timeout must be positive")
	}
	return nil
}
