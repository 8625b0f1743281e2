// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/hack/bench/traffic"
)

const (
	edited = "edited"
	// repairPause is between two edits, strayPause between two changes of strays.
	repairPause, strayPause = 20 * time.Millisecond, 10 * time.Millisecond
)

var compositeRepair = scenario{
	name: "composite-repair", about: "repair of edited children while other objects change, over the round trip of an edit",
	size: 300, quickSize: 50, // each child is edited once: the operator repairs one ever more rarely
	measure: func(ctx context.Context, t *turn) error { return t.host(ctx, composite(""), measureRepairs) },
}

func measureRepairs(ctx context.Context, h *hosting) error {
	if err := h.createConfigMaps(ctx, strays, nil, nil); err != nil {
		return err
	}
	if err := h.converge(ctx, 0, h.size, parentSpec{Children: 1, Value: aValue}); err != nil {
		return err
	}
	churning, stop := context.WithCancel(ctx)
	var churn sync.WaitGroup
	churn.Go(func() {
		for i := 0; sleep(churning, strayPause) == nil; i++ {
			churn.Go(func() { _ = h.setValue(churning, strayName(i%strays), strconv.Itoa(i)) })
		}
	})
	defer churn.Wait()
	defer stop()
	var roundTrips, repairs []float64
	for i := range h.size {
		roundTrip, repair, err := h.repair(ctx, childName(traffic.ObjectName(i), 0))
		if err != nil {
			return err
		}
		roundTrips, repairs = append(roundTrips, roundTrip), append(repairs, repair)
		if err := sleep(ctx, repairPause); err != nil {
			return err
		}
	}
	ours, theirs := percentile(repairs, 99), percentile(roundTrips, 99)
	h.add(row{Name: "repair of an edited child during churn, p99, over a round trip", Unit: times, Goal: 3}, ours/theirs,
		"%.1f ms and %.1f ms; medians %.1f ms and %.1f ms", milli*ours, milli*theirs, milli*median(repairs), milli*median(roundTrips))
	return nil
}

// repair edits a child. It returns the seconds until a watch shows the edit, which is a bare round trip, and until it shows the repair.
func (h *hosting) repair(ctx context.Context, child string) (roundTrip, repair float64, err error) {
	ctx, stop := context.WithTimeout(ctx, milestoneTimeout)
	defer stop()
	watcher, err := h.kubeClient.CoreV1().ConfigMaps(h.namespace.name).Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: child}))
	if err != nil {
		return 0, 0, fmt.Errorf("watching ConfigMap %s: %w", child, err)
	}
	defer watcher.Stop()
	begin := time.Now()
	failed := make(chan error, 1)
	go func() {
		if err := h.setValue(ctx, child, edited); err != nil {
			failed <- err
		}
	}()
	var seen time.Time
	for {
		select {
		case err := <-failed:
			return 0, 0, err
		case event, open := <-watcher.ResultChan():
			configMap, ok := event.Object.(*corev1.ConfigMap)
			switch {
			case !open || !ok:
				return 0, 0, fmt.Errorf("the watch of ConfigMap %s has ended before it was repaired", child)
			case configMap.Data["value"] == edited && seen.IsZero():
				seen = time.Now()
			case configMap.Data["value"] == aValue && !seen.IsZero():
				return seen.Sub(begin).Seconds(), time.Since(begin).Seconds(), nil
			}
		}
	}
}
