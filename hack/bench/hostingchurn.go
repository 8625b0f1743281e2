// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/hack/bench/parents"
)

const (
	// fewParents are compared with many, which are an option.
	fewParents = 100
	// strays is how many ownerless objects there are.
	strays = 1000
	// strayChanges is how many of their changes are made in a row, and strayPause is between two while children are repaired.
	strayChanges, strayPause = 5000, 10 * time.Millisecond
	// repairs is how many children are edited, each once: of one that is edited again and again the operator tires. repairPause is
	// between two of them.
	repairs, repairPause = 300, 20 * time.Millisecond
)

// strayOutcome is what a change took that concerns no parent, beside so many of them.
type strayOutcome struct {
	parents      int
	cpuPerChange float64 // seconds
}

func (b *bench) measureChurn(ctx context.Context) error {
	if err := b.host(ctx, "strays", b.manyParents, b.measureStrays); err != nil {
		return err
	}
	return b.host(ctx, "repairs", repairs, b.measureRepairs)
}

// measureStrays measures what changes of an object cost that no parent owns or selects, with few parents and with many.
func (b *bench) measureStrays(ctx context.Context, h *hosting) error {
	if err := h.startEngine(ctx, nil); err != nil {
		return err
	}
	if err := h.createStrays(ctx, strays); err != nil {
		return err
	}
	before := 0
	for _, count := range []int{fewParents, b.manyParents} {
		if err := h.createParents(ctx, before, count, parents.Spec{Value: aValue}); err != nil {
			return err
		}
		before = count
		if _, err := h.awaitParents(ctx, count, aValue); err != nil {
			return err
		}
		if err := sleep(ctx, calmPause); err != nil {
			return err
		}
		idle, err := h.spend(ctx, func() error { return sleep(ctx, calmPause) })
		if err != nil {
			return err
		}
		spent, err := h.spend(ctx, func() error {
			return inParallelBy(ctx, b.workers, strayChanges, func(ctx context.Context, i int) error { return h.changeStray(ctx, i) })
		})
		if err != nil {
			return err
		}
		cpu := spent.cpuSeconds - idle.cpuSeconds*spent.seconds/idle.seconds
		b.measured.hosted.strays = append(b.measured.hosted.strays, strayOutcome{count, cpu / strayChanges})
		b.say("%d changes that concern none of %d parents: %.3f ms of CPU each, in %.1f s, with %.0f syncs", strayChanges, count, milli*cpu/strayChanges, spent.seconds, spent.syncs)
	}
	return nil
}

func strayName(i int) string { return fmt.Sprintf("stray-%05d", i) }

// createStrays creates objects of the type of children that belong to nobody.
func (h *hosting) createStrays(ctx context.Context, count int) error {
	return inParallel(ctx, count, func(ctx context.Context, i int) error {
		stray := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: strayName(i), Labels: map[string]string{"app": "stray"}}}
		if _, err := h.kubeClient.CoreV1().ConfigMaps(h.namespace).Create(ctx, stray, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating ConfigMap %s/%s: %w", h.namespace, stray.Name, err)
		}
		return nil
	})
}

// changeStray makes one of all changes, of which each is of another object than those before.
func (h *hosting) changeStray(ctx context.Context, i int) error {
	return h.patchData(ctx, strayName(i%strays), fmt.Sprintf(`{"data":{"value":"%d"}}`, i))
}

func (h *hosting) patchData(ctx context.Context, name, patch string) error {
	if _, err := h.kubeClient.CoreV1().ConfigMaps(h.namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("changing ConfigMap %s/%s: %w", h.namespace, name, err)
	}
	return nil
}

// measureRepairs edits children, one after the other, while objects churn that belong to nobody.
func (b *bench) measureRepairs(ctx context.Context, h *hosting) (err error) {
	if err := h.createStrays(ctx, strays); err != nil {
		return err
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
	if err := sleep(ctx, calmPause); err != nil {
		return err
	}
	churning, stop := context.WithCancel(ctx)
	var churn sync.WaitGroup
	churn.Go(func() { h.churn(churning) })
	defer churn.Wait()
	defer stop()
	for i := range h.count {
		trip, repair, err := h.repair(ctx, parents.ChildName(objectName(i), 0))
		if err != nil {
			return err
		}
		b.measured.hosted.roundTrips = append(b.measured.hosted.roundTrips, trip)
		b.measured.hosted.repairs = append(b.measured.hosted.repairs, repair)
		if err := sleep(ctx, repairPause); err != nil {
			return err
		}
	}
	return nil
}

// churn changes the strays in turn until the context ends.
func (h *hosting) churn(ctx context.Context) {
	var changes sync.WaitGroup
	defer changes.Wait()
	tick := time.NewTicker(strayPause)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			changes.Go(func() { _ = h.changeStray(ctx, i) }) // one that fails is one less
		}
	}
}

// repair edits a child. It returns how long it took until the edit was seen by those who watch, which is a bare round trip, and from
// then on until it was undone.
func (h *hosting) repair(ctx context.Context, child string) (roundTrip, repair float64, err error) {
	const edited = "edited"
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watcher, err := h.kubeClient.CoreV1().ConfigMaps(h.namespace).Watch(watching, metav1.SingleObject(metav1.ObjectMeta{Name: child}))
	if err != nil {
		return 0, 0, fmt.Errorf("watching ConfigMap %s/%s: %w", h.namespace, child, err)
	}
	defer watcher.Stop()
	begin := time.Now()
	var seen time.Time
	failed := make(chan error, 1)
	go func() { failed <- h.patchData(ctx, child, `{"data":{"value":"`+edited+`"}}`) }()
	timeout := time.After(milestoneTimeout)
	for {
		select {
		case err := <-failed:
			if err != nil {
				return 0, 0, err
			}
			failed = nil
		case <-timeout:
			return 0, 0, fmt.Errorf("ConfigMap %s/%s, which was edited, is not repaired after %v", h.namespace, child, milestoneTimeout)
		case event, open := <-watcher.ResultChan():
			configMap, ok := event.Object.(*corev1.ConfigMap)
			switch {
			case !open || !ok:
				return 0, 0, fmt.Errorf("the watch of ConfigMap %s/%s has ended", h.namespace, child)
			case configMap.Data["value"] == edited && seen.IsZero():
				seen = time.Now()
			case configMap.Data["value"] == aValue && !seen.IsZero():
				return seen.Sub(begin).Seconds(), time.Since(begin).Seconds(), nil
			}
		}
	}
}
