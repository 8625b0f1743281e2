// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millwright.dev/hack/bench/traffic"
)

// syncWindow is how long syncs are counted.
const syncWindow = 5 * time.Second

var compositeSync = scenario{
	name: "composite-sync", about: "CPU and requests of syncs that find nothing to do; the number is that of children",
	size: 1000, quickSize: 100,
	measure: measureSyncs,
}

// unchangedParents have children that stay as they are. Each parent is synced again after that time, which leaves the machine some room.
var unchangedParents = []struct {
	parents, children int
	every             time.Duration
	cpuGoal           float64 // milliseconds
}{
	{20, 1, 10 * time.Millisecond, 0.1},
	{5, 100, 20 * time.Millisecond, 0.5},
	{2, 1000, 40 * time.Millisecond, 5},
}

func measureSyncs(ctx context.Context, t *turn) error {
	for _, u := range unchangedParents {
		if u.children > t.size {
			continue
		}
		err := t.host(ctx, "", func(ctx context.Context, h *hosting) (err error) {
			proxy, kubeconfig, err := t.startProxy() // to count requests
			if err != nil {
				return err
			}
			h.kubeconfig = kubeconfig
			defer func() { err = errors.Join(err, h.stopEngine(), proxy.Close()) }()
			if err := h.converge(ctx, 0, u.parents, parentSpec{Children: u.children, Value: aValue, ResyncAfterSeconds: u.every.Seconds()}); err != nil {
				return err
			}
			_, _ = proxy.Take()
			rise, _, err := h.engine.spend(ctx, func() error { return sleep(ctx, syncWindow) })
			if err != nil {
				return err
			}
			requests, err := proxy.Take()
			t.add(row{Name: fmt.Sprintf("CPU of a sync of %d unchanged children", u.children), Unit: milliseconds, Goal: u.cpuGoal, Most: 2 * u.cpuGoal},
				milli*rise[cpuSeconds]/rise[syncsTotal], "mean of %.0f syncs", rise[syncsTotal])
			t.add(row{Name: fmt.Sprintf("requests of all these syncs of %d children", u.children)}, float64(len(requests)), "%s", listed(kindsOf(requests)))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func kindsOf(requests []traffic.Request) (kinds []string) {
	for _, r := range requests {
		kinds = append(kinds, r.Kind())
	}
	return kinds
}
