// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// calmPause lets what a change leaves to do go by, before an operator at rest is measured.
	calmPause = 3 * time.Second
	// idlePeriod is how long an idle operator is measured.
	idlePeriod = 20 * time.Second
)

var large = scenario{
	name: "large", about: "many ImmortalContainers: lost events of their cold start, idle CPU, heap, next start",
	size: 10000, quickSize: 200, podsPerObject: 1, once: true,
	measure: measureLarge,
}

var containersStarted = regexp.MustCompile(`("Started") logger="immortalcontainer"`)

// measureLarge measures an operator while objects become Ready, then when they are, and others that are started when they are. An object is
// an ImmortalContainer with its Pod.
func measureLarge(ctx context.Context, t *turn) error {
	empty, err := t.heapWith(ctx, 0)
	if err != nil {
		return err
	}
	n, err := t.newNamespace(ctx)
	if err != nil {
		return err
	}
	create := func(ctx context.Context, name string) error { return createContainer(ctx, n, name) }
	if err := createObjects(ctx, t.size, create); err != nil {
		return err
	}
	if err := t.coldStartAndIdle(ctx, n); err != nil {
		return err
	}
	heap, err := t.heapWith(ctx, t.size)
	if err != nil {
		return err
	}
	t.add(row{Name: fmt.Sprintf("heap for each of %d objects", t.size), Unit: kibibytes, Goal: 10}, (heap-empty)/float64(t.size)/(1<<10),
		"%.1f MiB, without objects %.1f MiB", heap/mebi, empty/mebi)
	for range t.repetitions {
		if err := t.nextStart(ctx, n); err != nil {
			return err
		}
	}
	return n.remove(ctx)
}

func (t *turn) coldStartAndIdle(ctx context.Context, n *namespace) (err error) {
	observing, stop := context.WithCancel(ctx)
	defer stop()
	o := t.newObserver()
	if err := containerWorkload.observe(observing, n, o); err != nil {
		return err
	}
	begin := time.Now()
	operator, err := t.startOperator(ctx, t.kubeconfig(), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.stop()) }()
	ready, err := o.await(ctx, t.size, readyInStart(1))
	if err != nil {
		return err
	}
	number, changed := o.marked(milestone{events, posted})
	for number < t.size && time.Since(changed) < 10*time.Second { // the rest is lost
		if err := sleep(ctx, pollInterval); err != nil {
			return err
		}
		number, changed = o.marked(milestone{events, posted})
	}
	t.add(row{Name: fmt.Sprintf("lost events of a cold start of %d objects", t.size)}, float64(t.size-number), "all Ready after %.2f s", ready.Sub(begin).Seconds())
	stop()
	if err := sleep(ctx, calmPause); err != nil {
		return err
	}
	period := idlePeriod
	if t.quick {
		period /= 10
	}
	rise, seconds, err := operator.spend(ctx, func() error { return sleep(ctx, period) })
	if err != nil {
		return err
	}
	t.add(row{Name: fmt.Sprintf("idle CPU with %d objects", t.size), Unit: percent, Goal: 1}, 100*rise[cpuSeconds]/seconds, "of one core; %.0f syncs", rise[syncsTotal])
	return nil
}

// heapWith returns the live heap, in bytes, of an operator that is started when that number of objects exist, and has synced them.
func (t *turn) heapWith(ctx context.Context, objects int) (heap float64, err error) {
	operator, err := t.startOperator(ctx, t.kubeconfig(), []string{frequentCollections})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, operator.stop()) }()
	if _, err := operator.awaitLine(ctx, containersStarted); err != nil {
		return 0, err
	}
	if err := operator.awaitSynced(ctx, objects); err != nil {
		return 0, err
	}
	return operator.awaitLiveHeap(ctx)
}

// nextStart measures how long an operator takes until it has synced the objects, over the time to only read them.
func (t *turn) nextStart(ctx context.Context, n *namespace) error {
	begin := time.Now()
	operator, err := t.startOperator(ctx, t.kubeconfig(), nil)
	if err != nil {
		return err
	}
	err = operator.awaitSynced(ctx, t.size)
	started := time.Since(begin).Seconds()
	if err := errors.Join(err, operator.stop()); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	o := t.newObserver()
	exists := func(event watch.Event) (name, mark string) { return event.Object.(metav1.Object).GetName(), "there" }
	begin = time.Now()
	err = errors.Join(
		o.follow(reading, "objects", metav1.ListOptions{}, n.client.ImmortalcontainersV1alpha1().ImmortalContainers(n.name).Watch, exists),
		o.follow(reading, "Pods", metav1.ListOptions{}, n.kubeClient.CoreV1().Pods(n.name).Watch, exists),
	)
	if err != nil {
		return err
	}
	for _, kind := range []string{"objects", "Pods"} {
		if _, err := o.await(ctx, t.size, milestone{kind, "there"}); err != nil {
			return err
		}
	}
	read := time.Since(begin).Seconds()
	t.add(row{Name: fmt.Sprintf("start with %d objects until all are synced, over reading them", t.size), Unit: times, Goal: 1.5, Most: 2}, started/read,
		"%.2f s and %.2f s", started, read)
	return nil
}
