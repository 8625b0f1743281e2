// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/hack/bench/parents"
)

// aValue that children and statuses have.
const aValue = "a"

// measureHosting lets the operator and the bare client bring parents up, and the children of one parent.
func (b *bench) measureHosting(ctx context.Context) error {
	err := b.host(ctx, "coldstart", 0, func(ctx context.Context, h *hosting) error {
		b.measured.hosted.start = &contest{workload: parentsOf(b.parents, h.stage)}
		if err := b.hold(ctx, b.measured.hosted.start); err != nil {
			return err
		}
		return b.measureEmptyStart(ctx, h)
	})
	if err != nil {
		return err
	}
	return b.host(ctx, "fanout", 1, b.measureFanOut)
}

// measureEmptyStart measures what a cold start takes that the bare client is spared: the start of a process, until it serves.
func (b *bench) measureEmptyStart(ctx context.Context, h *hosting) error {
	begin := time.Now()
	if err := h.startEngine(ctx, nil); err != nil {
		return err
	}
	b.measured.hosted.emptyStart = time.Since(begin).Seconds()
	b.say("Until parents are served, if there are none: %.2f s", b.measured.hosted.emptyStart)
	return nil
}

// parentsOf is a cold start of parents with one child each.
func parentsOf(count int, labels map[string]string) *workload {
	return &workload{
		resource: parents.Resource,
		count:    count,
		create: func(ctx context.Context, p *population, name string) error {
			return p.createParent(ctx, name, labels, parents.Spec{Children: 1, Value: aValue})
		},
		observe: func(ctx context.Context, p *population, o *observer) error {
			if err := p.observeParents(ctx, o); err != nil {
				return err
			}
			return o.followEvents(ctx, p, parents.Kind)
		},
		requests: []string{"POST configmaps", "PUT parents/status"},
		phases: []phase{{
			name: "cold start", title: "cold start of %d parents, until all have a child and a status",
			milestones: []milestone{{kind: parentsSeen, mark: aValue}}, events: 1,
			requestsGoal: 3, // child, status, event
		}},
		flags:  onlyHosting,
		atOnce: parentsAtOnce,
	}
}

// childrenAtOnce is how many children of one parent the operator writes at the same time.
const childrenAtOnce = 16

// measureFanOut lets the operator and a bare client create the children of one parent, in turn.
func (b *bench) measureFanOut(ctx context.Context, h *hosting) error {
	bare, err := b.newPopulation(ctx, 1)
	if err != nil {
		return err
	}
	observing, stop := context.WithCancel(ctx)
	defer stop()
	seen := newObserver()
	if err := bare.observeChildren(observing, seen); err != nil {
		return err
	}
	for i := range b.repetitions {
		if err := h.startEngine(ctx, nil); err != nil {
			return err
		}
		operator, err := h.fanOut(ctx, i, b.parents)
		if err := errors.Join(err, h.stopEngine()); err != nil {
			return err
		}
		seconds, err := h.copyChildren(ctx, bare, seen, objectName(i))
		if err != nil {
			return err
		}
		b.measured.hosted.fanOuts = append(b.measured.hosted.fanOuts, operator)
		b.measured.hosted.bareFanOuts = append(b.measured.hosted.bareFanOuts, seconds)
		b.say("%d children of one parent: operator %.2f s, bare client %.2f s", b.parents, operator, seconds)
	}
	return nil
}

// fanOut returns how long it took from the creation of a parent until the last of its children was there.
func (h *hosting) fanOut(ctx context.Context, number, children int) (seconds float64, err error) {
	value := fmt.Sprint("v", number)
	begin := time.Now()
	if err := h.createParent(ctx, objectName(number), h.stage, parents.Spec{Children: children, Value: value}); err != nil {
		return 0, err
	}
	last, err := h.seen.await(ctx, children, milestone{kind: childrenSeen, mark: value})
	if err != nil {
		return 0, err
	}
	_, err = h.awaitParents(ctx, 1, value)
	return last.Sub(begin).Seconds(), err
}

// copyChildren returns how long a bare client takes to create what the operator has created for a parent, as many at a time as that
// does, for a parent that no CompositeController selects.
func (h *hosting) copyChildren(ctx context.Context, to *population, seen *observer, parent string) (seconds float64, err error) {
	if err := to.createParent(ctx, parent, nil, parents.Spec{}); err != nil {
		return 0, err
	}
	owner, err := to.parents().Get(ctx, parent, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading parent %s/%s: %w", to.namespace, parent, err)
	}
	list, err := h.kubeClient.CoreV1().ConfigMaps(h.namespace).List(ctx, metav1.ListOptions{LabelSelector: parents.Label + "=" + parent})
	if err != nil {
		return 0, fmt.Errorf("listing the children of parent %s/%s: %w", h.namespace, parent, err)
	}
	client, err := kubernetes.NewForConfig(h.config) // which sends JSON, as the operator does
	if err != nil {
		return 0, err
	}
	copies := list.Items
	for i := range copies {
		o := &copies[i]
		o.ObjectMeta = metav1.ObjectMeta{Name: o.Name, Labels: o.Labels, Annotations: o.Annotations, OwnerReferences: o.OwnerReferences}
		o.OwnerReferences[0].UID = owner.GetUID()
	}
	begin := time.Now()
	err = inParallelBy(ctx, childrenAtOnce, len(copies), func(ctx context.Context, i int) error {
		if _, err := client.CoreV1().ConfigMaps(to.namespace).Create(ctx, &copies[i], metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating ConfigMap %s/%s: %w", to.namespace, copies[i].Name, err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	last, err := seen.await(ctx, len(copies), milestone{kind: childrenSeen, mark: copies[0].Data["value"]})
	return last.Sub(begin).Seconds(), err
}
