// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the operator, and prints a table: row, value, goal. README.md describes how to read it and how to add a row.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

// scenarios are measured in this order.
var scenarios = []*scenario{
	&immortalContainers, &machines, &helloApps, &actionSets, &leadership,
	&compositeStart, &compositeChildren, &compositeSync, &compositeResync, &compositeChurn, &compositeRepair, &compositeRolling, &compositeNeighbour,
	&compositeOutage, &compositeMemory, &compositeApply,
	&decoratorNoop, &decoratorStart,
	&relatedChurn, &relatedShared, &relatedMemory,
	&empty,
	&farmPods, &farmLlamas,
	&large,
}

// options are the flags.
type options struct {
	scenarios          []*scenario
	quick              bool
	repetitions        int
	operator, baseline string
}

func main() {
	ctx, restoreSignals := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops the measurements, the second one ends this process immediately.
	context.AfterFunc(ctx, restoreSignals)
	o, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(exitUsage)
	}
	report, err := runBench(ctx, o, os.Stderr)
	if err == nil {
		err = report.table(os.Stdout) // a goal that was not reached is no error
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitFailed)
	}
}

// parseOptions writes usage and errors to the output too.
func parseOptions(args []string, output io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.Usage = func() {
		fmt.Fprint(output, "usage: bench [flags]\n\nMeasures the operator on a control plane of its own, and prints a table. Run it by make bench, which builds what it needs.\n\n")
		flags.PrintDefaults()
		fmt.Fprint(output, "\nScenarios, with their numbers of objects (with --quick):\n")
		for _, s := range scenarios {
			fmt.Fprintf(output, "  %-20s %s: %d (%d)\n", s.name, s.about, s.size, s.quickSize)
		}
	}
	names := flags.String("rows", "", "scenarios to measure, as a list of the beginnings of their names, e.g. composite,farm-pods (default all)")
	flags.BoolVar(&o.quick, "quick", false, "measure few objects, once: to see in a few minutes that everything works")
	flags.IntVar(&o.repetitions, "repetitions", 3, "how often each scenario is measured. The table has the medians")
	flags.StringVar(&o.operator, "operator", binary("millwright"), "binary of the operator")
	flags.StringVar(&o.baseline, "baseline", "", "another binary of the operator, to be measured in turn with --operator and compared with it")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.repetitions = 1
	}
	if o.scenarios, err = selectScenarios(*names); err == nil {
		switch {
		case flags.NArg() > 0:
			err = fmt.Errorf("invalid argument %q: there are only flags", flags.Arg(0))
		case o.repetitions < 1:
			err = fmt.Errorf("invalid --repetitions %d: must be at least 1", o.repetitions)
		}
	}
	if err != nil {
		fmt.Fprintf(output, "bench: %v\n", err)
	}
	return o, err
}

// selectScenarios returns those whose names begin with one of the list, in the order of all scenarios.
func selectScenarios(list string) (selected []*scenario, err error) {
	used := map[string]bool{}
	prefixes := strings.Split(list, ",")
	for _, s := range scenarios {
		if i := slices.IndexFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(s.name, prefix) }); i >= 0 {
			selected, used[prefixes[i]] = append(selected, s), true
		}
	}
	for _, prefix := range prefixes {
		if !used[prefix] {
			return nil, fmt.Errorf("invalid --rows %q: the name of a scenario must begin with %q; see --help", list, prefix)
		}
	}
	return selected, nil
}

// binary returns the path of a command that make has built.
func binary(name string) string { return filepath.Join("bin", name) }
