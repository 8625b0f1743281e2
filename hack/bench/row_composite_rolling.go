// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright.dev/hack/bench/traffic"
	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

const (
	// fewRolled is the number of children of the rolling update that a larger one is compared with.
	fewRolled = 50
	// rolledValue is what children have after a rolling update.
	rolledValue = "b"
	// stepRoundTrips is how many writes of a step follow one another: the records, the child, the status.
	stepRoundTrips = 3
	// stepRequests are those, with the record of the older revision and the event.
	stepRequests = 5
)

var compositeRolling = scenario{
	name: "composite-rolling", about: "rolling updates of the children of one parent, with a hook that takes 1 ms; the number is that of children",
	size: 500, quickSize: 100,
	measure: measureRolling,
}

// rolling declares a CompositeController whose parents have children that roll.
func rolling() declaration {
	d := composite(fmt.Sprintf("?%s=%v", delayParameter, time.Millisecond))
	return declaration{d.controller, func(h *hosting) runtime.Object {
		c := d.object(h).(*v1alpha1.CompositeController)
		c.Spec.ParentResource.RevisionHistory = &v1alpha1.CompositeControllerRevisionHistory{FieldPaths: []string{"spec.value"}}
		c.Spec.ChildResources[0].UpdateStrategy.Method = v1alpha1.ChildUpdateRollingInPlace
		return c
	}, d.markOf}
}

func measureRolling(ctx context.Context, t *turn) error {
	few, err := t.roll(ctx, fewRolled)
	if err != nil {
		return err
	}
	many, err := t.roll(ctx, t.size)
	if err != nil {
		return err
	}
	t.add(row{Name: fmt.Sprintf("round trips of a step of a rolling update of %d children", fewRolled), Goal: stepRoundTrips},
		few.roundTrips, "writes that follow one another; a step takes %.1f ms, an edit until a watch shows it %.1f ms", milli*few.step, milli*few.edit)
	t.add(row{Name: "  requests of a step, events included", Goal: stepRequests}, few.requests, "%s; %.1f syncs and %.1f calls of the hook",
		few.kinds, few.syncs, few.calls)
	t.add(row{Name: fmt.Sprintf("CPU of a rolling update of %d children, over one of %d", t.size, fewRolled), Unit: times, Goal: 1.2 * float64(t.size) / fewRolled},
		many.cpu/few.cpu, "%.2f s and %.2f s; a step takes %.1f ms and %.1f ms", many.cpu, few.cpu, milli*many.step, milli*few.step)
	return nil
}

// rolled is what a rolling update costs: CPU in seconds and, in the mean of its steps, seconds, syncs, calls of the hook, requests and those of them that
// follow one another. An edit by another client takes that many seconds until a watch shows it.
type rolled struct {
	cpu, step, edit                    float64
	syncs, calls, requests, roundTrips float64
	kinds                              string
}

// roll measures a rolling update of the children of one parent, then one whose requests are counted.
func (t *turn) roll(ctx context.Context, children int) (r rolled, err error) {
	err = t.host(ctx, rolling(), func(ctx context.Context, h *hosting) error {
		if err := h.converge(ctx, 0, 1, parentSpec{Children: children, Value: aValue}); err != nil {
			return err
		}
		rise, seconds, err := h.engine.spend(ctx, func() error { return h.rollTo(ctx, children, rolledValue) })
		if err != nil {
			return err
		}
		r.cpu, r.step = rise[cpuSeconds], seconds/float64(children)
		r.syncs, r.calls = rise[syncsTotal]/float64(children), rise[hookAnswers]/float64(children)
		var edits []float64
		if err := h.stopEngine(); err != nil {
			return err
		}
		for i := range fewRolled {
			seconds, err := h.edit(ctx, childName(traffic.ObjectName(0), i))
			if err != nil {
				return err
			}
			edits = append(edits, seconds)
		}
		r.edit = median(edits)
		return h.countRequests(ctx, children, &r)
	})
	return r, err
}

// countRequests counts the requests of a rolling update back to the first value.
func (h *hosting) countRequests(ctx context.Context, children int, r *rolled) (err error) {
	proxy, kubeconfig, err := h.startProxy()
	if err != nil {
		return err
	}
	h.kubeconfig = kubeconfig
	defer func() { err = errors.Join(err, h.stopEngine(), proxy.Close()) }()
	if err := h.startEngine(ctx, nil); err != nil {
		return err
	}
	if _, err := h.seen.await(ctx, children, milestone{childrenKind, rolledValue}); err != nil { // what was edited is repaired
		return err
	}
	if err := awaitCalm(ctx, proxy); err != nil {
		return err
	}
	if err := h.rollTo(ctx, children, aValue); err != nil {
		return err
	}
	requests, err := proxy.Take()
	r.requests, r.kinds = float64(len(requests))/float64(children), listed(kindsOf(requests))
	r.roundTrips = float64(inSequence(requests)) / float64(children)
	return err
}

// inSequence returns how many requests follow one another: the most of which each began after the one before was answered. Events are posted meanwhile.
func inSequence(requests []traffic.Request) (count int) {
	var answered int64
	for _, r := range slices.SortedFunc(slices.Values(requests), func(a, b traffic.Request) int { return cmp.Compare(a.Answered, b.Answered) }) {
		if r.Resource != events && r.Began > answered {
			answered = r.Answered
			count++
		}
	}
	return count
}

// rollTo changes the value of the parent, and waits until all children have it.
func (h *hosting) rollTo(ctx context.Context, children int, value string) error {
	if err := h.setParentValue(ctx, value); err != nil {
		return err
	}
	_, err := h.seen.await(ctx, children, milestone{childrenKind, value})
	return err
}

// edit edits a child, and returns the seconds until a watch shows the edit.
func (h *hosting) edit(ctx context.Context, child string) (seconds float64, err error) {
	ctx, stop := context.WithTimeout(ctx, milestoneTimeout)
	defer stop()
	watcher, err := h.kubeClient.CoreV1().ConfigMaps(h.namespace.name).Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: child}))
	if err != nil {
		return 0, fmt.Errorf("watching ConfigMap %s: %w", child, err)
	}
	defer watcher.Stop()
	begin := time.Now()
	if err := h.setValue(ctx, child, edited); err != nil {
		return 0, err
	}
	for event := range watcher.ResultChan() {
		if configMap, ok := event.Object.(*corev1.ConfigMap); ok && configMap.Data["value"] == edited {
			return time.Since(begin).Seconds(), nil
		}
	}
	return 0, fmt.Errorf("the watch of ConfigMap %s has ended before it showed the edit", child)
}
