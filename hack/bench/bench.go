// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"millwright.dev/hack/bench/traffic"
)

// scenario measures rows that share their preparation. It is declared in a file of its own.
type scenario struct {
	name, about string
	// size is the number of objects; quickSize is that with --quick.
	size, quickSize int
	// podsPerObject is the number of Pods that exist at the same time, divided by size. It decides how many nodes are simulated.
	podsPerObject int
	// once is for scenarios that take minutes: --repetitions does not count.
	once bool
	// measure adds the rows by turn.add.
	measure func(ctx context.Context, t *turn) error
}

// turn is one measurement of a scenario with one binary of the operator.
type turn struct {
	*bench
	*scenario
	number   int
	operator string // path of the binary
}

// add adds a value to the row of that name. The note explains this value.
func (t *turn) add(r row, value float64, note string, args ...any) {
	s := sample{Value: value, Note: fmt.Sprintf(note, args...)}
	t.report.add(r, s, t.operator == t.baseline)
	t.say("%s: %s", strings.TrimSpace(r.Name), strings.TrimRight(r.Unit.format(value)+", "+s.Note, ", "))
}

// bench is one run of this program.
type bench struct {
	options
	*cluster
	dir        string
	begin      time.Time
	progress   io.Writer
	fail       context.CancelCauseFunc // ends the run
	report     report
	namespaces int
	recordings map[string]*traffic.Recording // by operator and scenario

	// hook of all declarations; nil until it is needed.
	hook        *http.Server
	hookAddress string
	hookCalls   hookCalls
}

// runBench measures the scenarios on a control plane of its own, and removes that.
func runBench(ctx context.Context, o options, progress io.Writer) (_ *report, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	b := &bench{options: o, begin: time.Now(), progress: progress, fail: fail, recordings: map[string]*traffic.Recording{}}
	load, _ := os.ReadFile("/proc/loadavg") // only Linux has it
	b.say("%d cores, %s, load averages %s", runtime.NumCPU(), runtime.Version(), bytes.TrimSpace(load))
	if b.dir, err = os.MkdirTemp("", "mw-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	pods := 0
	for _, s := range o.scenarios {
		if o.quick {
			s.size = s.quickSize
		}
		pods = max(pods, s.size*s.podsPerObject)
	}
	b.say("Starting the control plane")
	if err := b.startCluster(ctx, pods); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.cluster.stop()) }()
	for _, s := range o.scenarios {
		if err := b.measure(ctx, s); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, cmp.Or(context.Cause(ctx), err))
		}
	}
	return &b.report, nil
}

// measure lets the binaries take turns. Their order changes with every turn, so that what one leaves behind does not always affect the same.
func (b *bench) measure(ctx context.Context, s *scenario) error {
	operators := []string{b.operator}
	if b.baseline != "" {
		operators = append(operators, b.baseline)
	}
	repetitions := b.repetitions
	if s.once {
		repetitions = 1
	}
	for number := range repetitions {
		for k := range operators {
			t := &turn{bench: b, scenario: s, number: number, operator: operators[(number+k)%len(operators)]}
			b.say("%s, turn %d of %s", s.name, number+1, t.operator)
			if err := s.measure(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// say writes a line about the progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "%6.1f s  %s\n", time.Since(b.begin).Seconds(), fmt.Sprintf(format, args...))
}

func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(duration):
		return nil
	}
}
