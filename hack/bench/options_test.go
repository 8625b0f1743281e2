// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

func TestQuickMakesEverythingSmallButWhatWasSaid(t *testing.T) {
	o, err := parseOptions([]string{"--quick", "--large=500"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.count != 50 || o.large != 500 || o.repetitions != 1 || o.machines != 25 || o.apps != 50 || o.actions != 25 || o.parents != 50 || o.outage > time.Minute/2 || o.farmObjects != 200 {
		t.Errorf("got %+v", o)
	}
}

func TestAllRowsAreMeasuredUnlessSomeAreNamed(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.rows) != len(allRows) {
		t.Errorf("got %v", o.rows)
	}
	o, err = parseOptions([]string{"--rows=idle,heap"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.rows) != 2 || !o.rows[rowIdle] || !o.rows[rowHeap] {
		t.Errorf("got %v", o.rows)
	}
}

func TestThereIsRoomForThePodsOfTheRowsThatAreMeasuredAndNoMore(t *testing.T) {
	for rows, want := range map[string]int{"runs": 2000, "runs,start": 11000, "helloapps": 3000, "machines": 0, "farm": 5000} {
		o, err := parseOptions([]string{"--rows=" + rows, "--helloapps=3000"}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.pods(); got != want {
			t.Errorf("for %s there is room for %d Pods, want %d", rows, got, want)
		}
	}
}

func TestMistakesInTheCommandLineAreToldAsTheyAre(t *testing.T) {
	for args, want := range map[string]string{
		"--rows=runs,idel":       `there is no "idel"; there are runs, machines, helloapps, actions, hosting, hostingsyncs, hostingchurn, hostingoutage, hostingmemory, farm, idle, heap, start`,
		"--count=20000":          "--large=10000 must not be less than --count=20000",
		"--count=0":              "--count and --large must be between 1 and 99999",
		"--machines=0":           "--machines and --helloapps must be between 1 and 99999",
		"--helloapps=100000":     "--machines and --helloapps must be between 1 and 99999",
		"--actions=0":            "--actions must be between 1 and 99999",
		"--parents=0":            "--parents must be between 1 and 9999",
		"--many-parents=99":      "--many-parents between 100 and 99999",
		"--objects=150":          "--objects must be a multiple of 100 below 100000",
		"--outage=0s":            "must be positive",
		"--farm-objects=0":       "--farm-objects must be between 1 and 99999",
		"--repetitions=0":        "--repetitions must be at least 1",
		"--idle=0s":              "must be positive",
		"now":                    "no arguments",
		"--quick --large=10":     "--large=10 must not be less than --count=50",
		"--unknown":              "not defined: -unknown",
		"--large=100000 --count": "needs an argument",
	} {
		var output bytes.Buffer
		if _, err := parseOptions(strings.Fields(args), &output); err == nil {
			t.Errorf("%s is accepted", args)
		}
		if !strings.Contains(output.String(), want) {
			t.Errorf("%s: it says %q, want %q in it", args, output.String(), want)
		}
	}
}
