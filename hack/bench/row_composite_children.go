// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"millwright.dev/hack/bench/traffic"
)

var compositeChildren = scenario{
	name: "composite-children", about: "creation of the children of one parent, over a bare client that creates as many concurrently",
	size: 1000, quickSize: 50,
	measure: func(ctx context.Context, t *turn) error { return t.host(ctx, composite(""), measureChildren) },
}

func measureChildren(ctx context.Context, h *hosting) error {
	if err := h.startEngine(ctx, nil); err != nil {
		return err
	}
	parent := traffic.ObjectName(0)
	begin := time.Now()
	if err := h.createParent(ctx, parent, h.stage, parentSpec{Children: h.size, Value: aValue}); err != nil {
		return err
	}
	last, err := h.seen.await(ctx, h.size, milestone{childrenKind, aValue})
	if err != nil {
		return err
	}
	ours := last.Sub(begin).Seconds()
	_, err = h.awaitParents(ctx, 1, aValue)
	if err := errors.Join(err, h.stopEngine()); err != nil {
		return err
	}
	theirs, err := h.copyChild(ctx, childName(parent, 0), aValue, false)
	if err != nil {
		return err
	}
	h.add(row{Name: fmt.Sprintf("creation of %d children of a parent, over the bare client", h.size), Unit: times, Goal: 1 / 0.8}, ours/theirs,
		"%.2f s and %.2f s: %.0f children a second", ours, theirs, float64(h.size)/ours)
	return nil
}

// copyChild returns the seconds that a bare client needs to create as many children as the operator did, or to apply them. They are copies of the child,
// which has the value.
func (h *hosting) copyChild(ctx context.Context, name, value string, apply bool) (seconds float64, err error) {
	client, err := kubernetes.NewForConfig(h.config) // it sends JSON, as the operator does
	if err != nil {
		return 0, err
	}
	configMaps := client.CoreV1().ConfigMaps(h.namespace.name)
	model, err := configMaps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading a child: %w", err)
	}
	meta := metav1.ObjectMeta{Labels: model.Labels, Annotations: model.Annotations, OwnerReferences: model.OwnerReferences}
	begin := time.Now()
	err = inParallel(ctx, childrenInParallel, h.size, func(ctx context.Context, i int) error {
		child := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta, Data: model.Data}
		child.Name = childName("bare-client", i)
		if !apply {
			_, err := configMaps.Create(ctx, child, metav1.CreateOptions{})
			return err
		}
		body, err := json.Marshal(child)
		if err != nil {
			return err
		}
		_, err = configMaps.Patch(ctx, child.Name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "bare-client"})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("creating the children: %w", err)
	}
	last, err := h.seen.await(ctx, 2*h.size, milestone{childrenKind, value})
	return last.Sub(begin).Seconds(), err
}
