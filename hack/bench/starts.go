// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// measureStarts measures how long an operator takes from its start until it has synced everything that is there, and in turn
// how long it takes to only read that.
func (b *bench) measureStarts(ctx context.Context) error {
	for range b.repetitions {
		if err := b.measureStart(ctx); err != nil {
			return fmt.Errorf("starting with %d objects: %w", b.large, err)
		}
		if err := b.measureRead(ctx); err != nil {
			return fmt.Errorf("reading %d objects: %w", b.large, err)
		}
		last := len(b.measured.starts) - 1
		b.say("Start with %d objects: first sync of all after %.2f s (CPU %.2f s), bare reading %.2f s", b.large,
			b.measured.starts[last], b.measured.startCPU[last], b.measured.reads[last])
	}
	return nil
}

func (b *bench) measureStart(ctx context.Context) (err error) {
	o, err := b.startOperator(ctx, b.kubeconfig())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.stop()) }()
	if err := o.awaitSynced(ctx, b.large); err != nil {
		return err
	}
	took := time.Since(o.started).Seconds()
	m, err := o.metrics(ctx)
	if err != nil {
		return err
	}
	b.measured.starts = append(b.measured.starts, took)
	b.measured.startCPU = append(b.measured.startCPU, m.cpuSeconds)
	return nil
}

func (b *bench) measureRead(ctx context.Context) error {
	begin := time.Now()
	child, err := startChild([]string{readCommand, b.kubeconfig()}, func(error) {})
	if err != nil {
		return err
	}
	err = child.expect(ctx, sayDone)
	took := time.Since(begin).Seconds()
	if err := errors.Join(err, child.stop()); err != nil {
		return err
	}
	b.measured.reads = append(b.measured.reads, took)
	return nil
}
