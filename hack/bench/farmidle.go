// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/client-go/rest"
)

// measureIdleWatches returns what the server holds for each of many watches that nothing is to be told, in bytes.
func (b *bench) measureIdleWatches(ctx context.Context, p *population, resource string) (each float64, err error) {
	err = b.withFarm(ctx, []string{heapLimit}, func(ctx context.Context, f *farm) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		client, err := rest.HTTPClientFor(b.config)
		if err != nil {
			return err
		}
		open := func(ctx context.Context) error {
			body, err := openWatch(ctx, b.config.Host, client, farmPath, p.namespace, resource)
			if err != nil {
				return err
			}
			context.AfterFunc(ctx, func() { _ = body.Close() })
			return nil
		}
		// The first one makes what all share.
		if err := open(ctx); err != nil {
			return err
		}
		before, err := f.awaitLive(ctx)
		if err != nil {
			return err
		}
		// Not inParallel, which would end them with the context of its own.
		for range b.farmWatches {
			if err := open(ctx); err != nil {
				return err
			}
		}
		if err := sleep(ctx, calmPause); err != nil {
			return err
		}
		after, err := f.awaitLive(ctx)
		each = (after - before) / float64(b.farmWatches)
		b.say("%d idle watches of %s: %.1f KiB each", b.farmWatches, resource, each/kibi)
		return err
	})
	return each, err
}

const kibi = 1 << 10
