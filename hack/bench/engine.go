// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"millwright.dev/hack/bench/parents"
)

const (
	parentsSeen  = "parents"
	childrenSeen = "children"
)

// startEngine starts the operator, and returns when it serves the CompositeController.
func (h *hosting) startEngine(ctx context.Context, env []string, flags ...string) (err error) {
	if h.engine, err = h.bench.startControllers(ctx, h.access, env, append(flags, onlyHosting...)...); err != nil {
		return err
	}
	stopping := &atomic.Bool{}
	h.stopping = stopping
	h.engine.onEnd(func(err error) {
		if !stopping.Load() {
			h.fail(err)
		}
	})
	return h.awaitServing(ctx, 1)
}

// awaitServing waits until the operator has begun to serve so many times, which it does anew for each change of the spec.
func (h *hosting) awaitServing(ctx context.Context, times int) error {
	said := []byte(`"Serving" `)
	return h.engine.await(ctx, "the CompositeController "+h.controller.Name+" to be served", func() bool {
		log, err := os.ReadFile(h.engine.log)
		return err == nil && bytes.Count(log, said) >= times
	})
}

func (h *hosting) stopEngine() error {
	if h.engine == nil {
		return nil
	}
	engine := h.engine
	h.engine = nil
	h.stopping.Store(true)
	return engine.stop()
}

// changeHook lets the hook be called with another query.
func (h *hosting) changeHook(ctx context.Context, query string) error {
	cc, err := h.controllers.Get(ctx, h.controller.Name, metav1.GetOptions{})
	if err == nil {
		*cc.Spec.Hooks.Sync.Webhook.URL = h.bench.hookURL(query)
		h.controller, err = h.controllers.Update(ctx, cc, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("changing the URL of its hook: %w", err)
	}
	return nil
}

// createParents with the numbers from one up to another.
func (h *hosting) createParents(ctx context.Context, from, to int, spec parents.Spec) error {
	return inParallel(ctx, to-from, func(ctx context.Context, i int) error { return h.createParent(ctx, objectName(from+i), h.stage, spec) })
}

func (p *population) parents() dynamic.ResourceInterface {
	return p.dynamic.Resource(parents.Resource).Namespace(p.namespace)
}

func (p *population) createParent(ctx context.Context, name string, labels map[string]string, spec parents.Spec) error {
	parent, err := parents.New(p.namespace, name, labels, spec)
	if err != nil {
		return err
	}
	if _, err := p.parents().Create(ctx, parent, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating parent %s/%s: %w", p.namespace, name, err)
	}
	return nil
}

// observeParents until the context ends. Their marks are the values that they have, as those of children are.
func (p *population) observeParents(ctx context.Context, o *observer) error {
	return o.follow(ctx, parentsSeen, metav1.ListOptions{}, p.parents().Watch, markOfParent)
}

func (p *population) observeChildren(ctx context.Context, o *observer) error {
	return o.follow(ctx, childrenSeen, metav1.ListOptions{LabelSelector: parents.Label}, p.kubeClient.CoreV1().ConfigMaps(p.namespace).Watch, markOfChild)
}

// markOfParent is the value in the status where that was written about the spec as it is.
func markOfParent(event watch.Event) (key, mark string) {
	parent := event.Object.(*unstructured.Unstructured)
	if parents.Converged(parent) {
		mark, _, _ = unstructured.NestedString(parent.Object, "status", "value")
	}
	return parent.GetName(), mark
}

func markOfChild(event watch.Event) (key, mark string) {
	child := event.Object.(*corev1.ConfigMap)
	return child.Name, child.Data["value"]
}

// awaitParents waits until so many parents have a value, and returns when the last one got it.
func (h *hosting) awaitParents(ctx context.Context, count int, value string) (time.Time, error) {
	return h.seen.await(ctx, count, milestone{kind: parentsSeen, mark: value})
}

// spending is what the operator has done in some time.
type spending struct {
	seconds, cpuSeconds, syncs, answers float64
}

// spend tells what the operator does while something else is done.
func (h *hosting) spend(ctx context.Context, do func() error) (s spending, err error) {
	before, err := h.engine.metrics(ctx)
	if err != nil {
		return s, err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return s, err
	}
	after, err := h.engine.metrics(ctx)
	return spending{
		seconds:    time.Since(begin).Seconds(),
		cpuSeconds: after.cpuSeconds - before.cpuSeconds,
		syncs:      after.syncs - before.syncs,
		answers:    after.answers - before.answers,
	}, err
}
