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

const (
	// syncWindow is how long syncs are counted.
	syncWindow = 5 * time.Second
	// calmTimeout is longer than the events of many parents are posted.
	calmTimeout = 2 * time.Minute
)

var compositeSync = scenario{
	name: "composite-sync", about: "CPU and requests of syncs that find nothing to do; the number is that of children",
	size: 1000, quickSize: 100,
	measure: measureSyncs,
}

// unchangedParents have children that stay as they are. Each parent is synced again after resyncTime, the shortest that there is.
var unchangedParents = []struct {
	parents, children int
	cpuGoal           float64 // milliseconds
}{
	{1000, 1, 0.1},
	{100, 1, 0.1}, // most of the time there is nothing to do
	{20, 100, 0.5},
	{4, 1000, 5},
}

const resyncTime = 500 * time.Millisecond

func measureSyncs(ctx context.Context, t *turn) error {
	for _, u := range unchangedParents {
		if u.children > t.size || u.parents > t.size {
			continue
		}
		spec := parentSpec{Children: u.children, Value: aValue, ResyncAfterSeconds: resyncTime.Seconds()}
		rise, requests, err := t.measureUnchanged(ctx, composite(""), u.parents, spec, syncWindow)
		if err != nil {
			return err
		}
		perSecond := float64(u.parents) / resyncTime.Seconds()
		t.add(row{Name: fmt.Sprintf("CPU of a sync of %d unchanged children, at %.0f a second", u.children, perSecond), Unit: milliseconds, Goal: u.cpuGoal, Most: 2 * u.cpuGoal},
			milli*rise[cpuSeconds]/rise[syncsTotal], "mean of %.0f syncs", rise[syncsTotal])
		t.add(row{Name: fmt.Sprintf("requests of all these syncs of %d children, at %.0f a second", u.children, perSecond)}, float64(len(requests)), "%s", listed(kindsOf(requests)))
	}
	return nil
}

// measureUnchanged returns what syncs cost that find nothing to do, and what they request: those of a while of parents with this spec.
func (t *turn) measureUnchanged(
	ctx context.Context, d declaration, parents int, spec parentSpec, while time.Duration,
) (rise metrics, requests []traffic.Request, err error) {
	err = t.host(ctx, d, func(ctx context.Context, h *hosting) (err error) {
		proxy, kubeconfig, err := t.startProxy() // to count requests
		if err != nil {
			return err
		}
		h.kubeconfig = kubeconfig
		defer func() { err = errors.Join(err, h.stopEngine(), proxy.Close()) }()
		if err := h.converge(ctx, 0, parents, spec); err != nil {
			return err
		}
		if err := awaitCalm(ctx, proxy); err != nil {
			return err
		}
		if rise, _, err = h.engine.spend(ctx, func() error { return sleep(ctx, while) }); err != nil {
			return err
		}
		requests, err = proxy.Take()
		return err
	})
	return rise, requests, err
}

// awaitCalm waits until nothing has been requested for a while: events are posted later than what they report. It does not wait for an
// operator that never ends.
func awaitCalm(ctx context.Context, proxy *traffic.Proxy) error {
	for begin := time.Now(); time.Since(begin) < calmTimeout; {
		if err := sleep(ctx, calmPause); err != nil {
			return err
		}
		if requests, err := proxy.Take(); err != nil || len(requests) == 0 {
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
