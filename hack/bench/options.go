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
	rowRuns     = "runs"
	rowIdle     = "idle"
	rowHeap     = "heap"
	rowStart    = "start"
	rowMachines = "machines"
	rowApps     = "helloapps"
	rowActions  = "actions"

	rowHosting       = "hosting"
	rowHostingSyncs  = "hostingsyncs"
	rowHostingChurn  = "hostingchurn"
	rowHostingOutage = "hostingoutage"
	rowHostingMemory = "hostingmemory"

	rowFarm = "farm"
)

var allRows = []string{
	rowRuns, rowMachines, rowApps, rowActions,
	rowHosting, rowHostingSyncs, rowHostingChurn, rowHostingOutage, rowHostingMemory,
	rowFarm,
	rowIdle, rowHeap, rowStart,
}

// options are what the command line says.
type options struct {
	rows        map[string]bool
	count       int
	large       int
	machines    int
	apps        int
	actions     int
	parents     int
	manyParents int
	objects     int
	outage      time.Duration
	farmObjects int
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
		"requests; machines and helloapps are cold starts of those\n"+
		"likewise; actions is the cold start of ActionSets, and how soon one begins; hosting is the cold start of a CompositeController's parents, and one with many\n"+
		"children; hostingsyncs are its syncs where nothing changes; hostingchurn are changes that concern none of its parents,\n"+
		"and repairs beside them; hostingoutage is a hook that is gone; hostingmemory is what its objects take; farm is lists of\n"+
		"FarmPods and Llamas, and requests for a Llama; idle is CPU at\n"+
		"rest; heap is memory for each object; start is the start with objects that exist")
	flags.IntVar(&o.count, "count", 1000, "number of ImmortalContainers")
	flags.IntVar(&o.large, "large", 10000, "number of ImmortalContainers for start and heap")
	flags.IntVar(&o.machines, "machines", 500, "number of Machines")
	flags.IntVar(&o.apps, "helloapps", 1000, "number of HelloApps")
	flags.IntVar(&o.actions, "actions", 500, fmt.Sprintf("number of ActionSets, of %d phases each", phasesPerAction))
	flags.IntVar(&o.parents, "parents", 1000, "number of parents of a CompositeController, and of the children of one; three times as many are resynced")
	flags.IntVar(&o.manyParents, "many-parents", 10000, "number of parents beside which an object changes that concerns none")
	flags.IntVar(&o.objects, "objects", 20000, "number of children, and of ownerless objects, for hostingmemory")
	flags.DurationVar(&o.outage, "outage", time.Minute, "how long the hook is gone")
	flags.IntVar(&o.farmObjects, "farm-objects", 5000, "number of FarmPods and of Llamas in a list")
	flags.IntVar(&o.repetitions, "repetitions", 3, "how often each time is measured; the median counts")
	flags.DurationVar(&o.idle, "idle", 20*time.Second, "how long to measure CPU at rest")
	flags.DurationVar(&o.timeout, "timeout", time.Hour, "when to give up")
	flags.StringVar(&o.jsonFile, "json", "", "file to write the figures to as JSON")
	quick := flags.Bool("quick", false, "measure few objects, once: to see that it works, in a few minutes; what is said by --count and the like wins")
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
		"count":        func() { o.count = 50 },
		"large":        func() { o.large = 200 },
		"machines":     func() { o.machines = 25 },
		"helloapps":    func() { o.apps = 50 },
		"actions":      func() { o.actions = 25 },
		"parents":      func() { o.parents = 50 },
		"many-parents": func() { o.manyParents = 500 },
		"objects":      func() { o.objects = 1000 },
		"farm-objects": func() { o.farmObjects = 200 },
		"outage":       func() { o.outage = 5 * time.Second },
		"repetitions":  func() { o.repetitions = 1 },
		"idle":         func() { o.idle = 2 * time.Second },
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
	case o.machines < 1 || o.machines > 99_999 || o.apps < 1 || o.apps > 99_999:
		return errors.New("--machines and --helloapps must be between 1 and 99999")
	case o.actions < 1 || o.actions > 99_999:
		return errors.New("--actions must be between 1 and 99999")
	case o.parents < 1 || o.parents > 9999 || o.manyParents < fewParents || o.manyParents > 99_999:
		return fmt.Errorf("--parents must be between 1 and 9999, --many-parents between %d and 99999", fewParents)
	case o.objects < childrenPerParent || o.objects%childrenPerParent != 0 || o.objects > 99_900:
		return fmt.Errorf("--objects must be a multiple of %d below 100000", childrenPerParent)
	case o.farmObjects < 1 || o.farmObjects > 99_999:
		return errors.New("--farm-objects must be between 1 and 99999")
	case o.large < o.count:
		return fmt.Errorf("--large=%d must not be less than --count=%d", o.large, o.count)
	case o.repetitions < 1:
		return errors.New("--repetitions must be at least 1")
	case o.idle <= 0 || o.timeout <= 0 || o.outage <= 0:
		return errors.New("--idle, --outage and --timeout must be positive")
	}
	return nil
}

// wantsRest tells whether something is measured of objects that stay.
func (o options) wantsRest() bool { return o.rows[rowIdle] || o.rows[rowHeap] || o.rows[rowStart] }

// pods is how many there may be at the same time. Nodes that are not needed only take CPU.
func (o options) pods() (most int) {
	if o.rows[rowRuns] {
		most = 2 * o.count // of before and after a recovery
	}
	if o.wantsRest() {
		most = max(most, o.count+o.large)
	}
	if o.rows[rowApps] {
		most = max(most, o.apps)
	}
	if o.rows[rowFarm] {
		most = max(most, o.farmObjects)
	}
	return most
}
