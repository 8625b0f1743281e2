// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// fewTargets are compared with many.
	fewTargets = 200
	// noopsPerSecond is the most that the hook of this program is asked.
	noopsPerSecond = 1000
)

var decoratorNoop = scenario{
	name: "decorator-noop", about: "CPU and requests of syncs of targets, with one attachment and one label, that find nothing to do",
	size: 10000, quickSize: 500, once: true,
	measure: measureNoops,
}

func measureNoops(ctx context.Context, t *turn) error {
	for _, targets := range []int{fewTargets, t.size} {
		interval := max(time.Second, time.Duration(targets)*time.Second/noopsPerSecond)
		spec := parentSpec{Children: 1, Value: aValue, ResyncAfterSeconds: interval.Seconds()}
		rise, requests, err := t.measureUnchanged(ctx, decorator(), targets, spec, max(syncWindow, interval))
		if err != nil {
			return err
		}
		t.add(row{Name: fmt.Sprintf("CPU of a sync of one of %d unchanged targets", targets), Unit: milliseconds, Goal: 0.1}, milli*rise[cpuSeconds]/rise[syncsTotal],
			"mean of %.0f syncs, each target every %v", rise[syncsTotal], interval)
		t.add(row{Name: fmt.Sprintf("requests of all these syncs of %d targets", targets)}, float64(len(requests)), "%s", listed(kindsOf(requests)))
	}
	return nil
}
