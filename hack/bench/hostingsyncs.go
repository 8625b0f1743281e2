// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/hack/bench/parents"
	"millwright.dev/hack/bench/traffic"
)

const (
	// syncWindow is how long syncs are counted, after warmUp.
	syncWindow, warmUp = 5 * time.Second, time.Second
	// slowAnswer is how long a hook takes that cannot answer as many calls as would be made.
	slowAnswer = 20 * time.Millisecond
	// resyncedPerParent is how many times as many parents are resynced as there are otherwise.
	resyncedPerParent = 3
)

// unchangedSizes are parents whose children stay as they are: how many parents, with how many children, and how often each is synced.
// Together that is as much as leaves the machine some room.
var unchangedSizes = []struct {
	parents, children int
	every             time.Duration
}{
	{20, 1, 10 * time.Millisecond},
	{5, 100, 20 * time.Millisecond},
	{2, 1000, 40 * time.Millisecond},
}

// unchangedOutcome is what syncs took that have found nothing to do.
type unchangedOutcome struct {
	children   int
	cpuPerSync float64 // seconds
	syncs      float64
	requests   traffic.Counts
}

// resyncOutcome is how often parents were resynced that were to be each second, and what the hook allows for.
type resyncOutcome struct {
	perSecond, barePerSecond, cpuPerSync float64
}

func (b *bench) measureSyncs(ctx context.Context) error {
	for _, size := range unchangedSizes {
		err := b.host(ctx, fmt.Sprintf("unchanged-%d", size.children), size.parents, func(ctx context.Context, h *hosting) error {
			outcome, err := h.unchanged(ctx, parents.Spec{Children: size.children, Value: aValue, ResyncAfterSeconds: size.every.Seconds()})
			b.measured.hosted.unchanged = append(b.measured.hosted.unchanged, outcome)
			return err
		})
		if err != nil {
			return err
		}
	}
	return b.host(ctx, "resync", resyncedPerParent*b.parents, b.measureResync)
}

// unchanged counts requests by a proxy, which costs the operator nothing where there are none.
func (h *hosting) unchanged(ctx context.Context, spec parents.Spec) (result unchangedOutcome, err error) {
	if err := h.createParents(ctx, 0, h.count, spec); err != nil {
		return result, err
	}
	proxy, kubeconfig, err := h.bench.startProxy()
	if err != nil {
		return result, err
	}
	h.access = kubeconfig
	defer func() { err = errors.Join(err, h.stopEngine(), proxy.Close()) }()
	if err := h.startEngine(ctx, nil); err != nil {
		return result, err
	}
	if _, err := h.awaitParents(ctx, h.count, aValue); err != nil {
		return result, err
	}
	if err := sleep(ctx, warmUp); err != nil {
		return result, err
	}
	if _, err := proxy.Take(); err != nil {
		return result, err
	}
	spent, err := h.spend(ctx, func() error { return sleep(ctx, syncWindow) })
	if err != nil {
		return result, err
	}
	requests, err := proxy.Take()
	result = unchangedOutcome{spec.Children, spent.cpuSeconds / spent.syncs, spent.syncs, traffic.Count(requests)}
	h.bench.say("%d unchanged children: %.0f syncs, %.3f ms of CPU each, %d requests", spec.Children, spent.syncs, milli*result.cpuPerSync, len(requests))
	return result, err
}

// measureResync measures how often many parents are synced again that are to be each second: by a hook that is fast, and by one that
// cannot keep up.
func (b *bench) measureResync(ctx context.Context, h *hosting) error {
	cc := h.controller.DeepCopy()
	cc.Spec.ResyncPeriodSeconds = ptr.To(int32(1))
	var err error
	if h.controller, err = h.controllers.Update(ctx, cc, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("making it resync: %w", err)
	}
	if err := h.createParents(ctx, 0, h.count, parents.Spec{Children: 1, Value: aValue}); err != nil {
		return err
	}
	if err := h.startEngine(ctx, nil); err != nil {
		return err
	}
	if _, err := h.awaitParents(ctx, h.count, aValue); err != nil {
		return err
	}
	fast, err := h.resyncs(ctx)
	if err != nil {
		return err
	}
	query := fmt.Sprintf("?%s=%v", parents.DelayParameter, slowAnswer)
	if err := errors.Join(h.changeHook(ctx, query), h.awaitServing(ctx, 2)); err != nil {
		return err
	}
	slow, err := h.resyncs(ctx)
	if err := errors.Join(err, h.stopEngine()); err != nil {
		return err
	}
	body, err := h.requestBody(ctx)
	if err != nil {
		return err
	}
	if fast.barePerSecond, err = callHook(ctx, b.hookURL(""), body); err != nil {
		return err
	}
	if slow.barePerSecond, err = callHook(ctx, b.hookURL(query), body); err != nil {
		return err
	}
	b.measured.hosted.resync, b.measured.hosted.slowResync = fast, slow
	for hook, o := range map[string]resyncOutcome{"a fast hook": fast, "a slow hook": slow} {
		b.say("%d parents resynced by %s: %.0f/s, %.3f ms of CPU each; the hook alone answers %.0f/s", h.count, hook, o.perSecond, milli*o.cpuPerSync, o.barePerSecond)
	}
	return nil
}

func (h *hosting) resyncs(ctx context.Context) (result resyncOutcome, err error) {
	if err := sleep(ctx, 2*warmUp); err != nil {
		return result, err
	}
	spent, err := h.spend(ctx, func() error { return sleep(ctx, syncWindow) })
	// A sync that finds no place to call the hook comes to nothing, and is made again.
	return resyncOutcome{perSecond: spent.answers / spent.seconds, cpuPerSync: spent.cpuSeconds / spent.answers}, err
}
