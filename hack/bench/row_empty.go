// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// settlePause is longer than a process waits until it releases the memory that only its start needed.
const settlePause = 8 * time.Second

var empty = scenario{
	name: "empty", about: "memory of an operator that serves CompositeControllers, of which there are none",
	size: 0, quickSize: 0,
	measure: measureEmpty,
}

func measureEmpty(ctx context.Context, t *turn) (err error) {
	operator, err := t.startOperator(ctx, t.kubeconfig(), nil, flagsOf(compositeName)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.stop()) }()
	if err := sleep(ctx, settlePause); err != nil {
		return err
	}
	before, err := operator.status()
	if err != nil {
		return err
	}
	m, err := operator.metrics(ctx) // which uses code that was not used before
	if err != nil {
		return err
	}
	t.add(row{Name: "memory of a process without objects", Unit: mebibytes, Goal: 30, Most: 40}, m[resident]/mebi,
		"live heap %.1f MiB; before metrics were read %.1f MiB, of which %.1f MiB are no pages of files", m[liveHeap]/mebi, before["VmRSS"]/mebi, before["RssAnon"]/mebi)
	return nil
}

// status returns the sizes that the kernel reports of the command on the leash, in bytes.
func (p *process) status() (sizes map[string]float64, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.command.Process.Pid))
	var content []byte
	for _, thread := range threads { // one of them has started it
		if child, _ := os.ReadFile(thread); err == nil && len(child) > 0 {
			content, err = os.ReadFile(fmt.Sprintf("/proc/%s/status", bytes.TrimSpace(child)))
		}
	}
	if err != nil || content == nil {
		return nil, fmt.Errorf("reading the status of the %s: %w", p.name, cmp.Or(err, errors.New("its process was not found")))
	}
	sizes = map[string]float64{}
	for line := range strings.Lines(string(content)) {
		var name string
		var kibi float64
		if n, _ := fmt.Sscanf(strings.Replace(line, ":", " ", 1), "%s %f kB", &name, &kibi); n == 2 { // other lines are no sizes
			sizes[name] = kibi * (1 << 10)
		}
	}
	return sizes, nil
}
