// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the operator against what the API server allows, and prints a table: row, value, goal.
//
// It starts a control plane of its own (bin/cluster, with simulated nodes), and the operator (bin/millwright) as a process
// with its default flags. The limit is set by a bare client (package bareclient): it sends exactly the requests that the
// operator was seen to send, as many at a time, and waits for what they waited for. To be recorded, the operator runs once
// behind a proxy; when times are taken there is none. Whether both then have sent the same is counted by the API server.
//
//	cold start   ImmortalContainers exist without Pods; the operator is started: until the last of them is Ready. The start of
//	             its process, its leader election and the filling of its caches count; the bare client is prepared.
//	recovery     all their Pods are deleted, by parallel requests with the default grace period, while the operator runs: until
//	             the last of them is Ready again
//	machines     a cold start of Machines: until the last has all its switches, and says so
//	helloapps    a cold start of HelloApps: until the last Deployment is there. Requests count until the last is Ready.
//	actions      a cold start of ActionSets whose phases each create a ConfigMap: until the last is complete, and says so. Then some are
//	             created one by one: from the creation of each until its first effect is seen.
//
// CompositeControllers are measured with parents of a kind of our own and a hook that is a process of its own (package parents):
//
//	cold start   parents without children exist, and the operator is started: until all have a child and a status
//	children     of one parent: until the last is there, by the operator and by a bare client that writes as many at a time
//	syncs        that find nothing to do: the operator's CPU for each, and its requests, counted by a proxy
//	resync       of all parents each second: the time between two of one, with a hook that can keep up and with one that cannot. It is
//	             compared with what the hook answers to a bare HTTP client that makes as many calls at a time.
//	changes      of objects that no parent owns or selects: the operator's CPU for each
//	repair       of edited children, while such objects change: from the edit until it is undone. A bare round trip is that from an edit
//	             until a watch tells of it.
//	outage       all parents change while their hook is gone: from its return until all have caught up
//	memory       of an operator that is started on children and ownerless objects, over their JSON
//
// The farm is the aggregated API server, a process of its own behind the aggregator. It is compared with what lies below it:
//
//	lists        of FarmPods and of Pods, as kubectl and other clients read them; of Llamas and of the records that hold them
//	requests     that create and get a Llama, one by one, and a record
//
// Operator and bare client take turns, and a ratio is taken of runs that followed each other: the machine may be busy with
// other things too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, restoreSignals := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks us to stop, the second one ends us at once.
	context.AfterFunc(ctx, restoreSignals)
	args := os.Args[1:]
	if len(args) > 0 && slices.Contains([]string{replayCommand, readCommand, hookCommand}, args[0]) {
		if err := runChild(ctx, args, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitFailed)
		}
		return
	}
	options, err := parseOptions(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(exitUsage)
	}
	if err := run(ctx, options, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitFailed)
	}
}

// run measures, then writes the table and the JSON. A goal that is missed is no error: it is in the table.
func run(ctx context.Context, o options, stdout, progress io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done after --timeout=%s", o.timeout))
	defer cancel()
	measured, err := runBench(ctx, o, progress)
	if err != nil {
		return err
	}
	r := makeReport(o, measured)
	if o.jsonFile != "" {
		if err := writeJSON(o.jsonFile, r.JSON); err != nil {
			return err
		}
	}
	return r.Table(stdout)
}

func writeJSON(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing what --json names: %w", err)
	}
	return errors.Join(write(file), file.Close())
}
