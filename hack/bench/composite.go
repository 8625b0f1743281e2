// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"millwright.dev/hack/bench/traffic"
)

const (
	// aValue of children and statuses.
	aValue = "a"
	// parentsInParallel is the number of parents that the operator works on concurrently, callsInParallel the number of calls of one hook.
	parentsInParallel, callsInParallel = 8 * workers, 2 * workers
	// childrenInParallel is the number of children of one parent that the operator writes concurrently.
	childrenInParallel = 16

	parentsKind  = "parents"
	childrenKind = "children"
)

// hosting is a declaration and a namespace with its parents, which have the label stage.
type hosting struct {
	*turn
	*namespace
	declaration
	stage      map[string]string
	seen       *observer // of the parents and their children
	kubeconfig string    // of the engine
	engine     *operator // nil while none runs
}

// host creates a declaration, calls do, and removes everything. It starts no engine.
func (t *turn) host(ctx context.Context, d declaration, do func(ctx context.Context, h *hosting) error) error {
	if t.hook == nil {
		if err := t.startHook("127.0.0.1:0"); err != nil {
			return err
		}
	}
	n, err := t.newNamespace(ctx)
	if err != nil {
		return err
	}
	h := &hosting{turn: t, namespace: n, declaration: d, stage: map[string]string{"stage": n.name}, seen: t.newObserver(), kubeconfig: t.kubeconfig()}
	t.hookCalls.seen.Store(h.seen)
	remove, err := h.declare(ctx)
	if err != nil {
		return err
	}
	observing, stop := context.WithCancel(ctx)
	defer stop()
	err = errors.Join(n.observeParents(observing, h.seen, h.markOf), n.observeChildren(observing, h.seen))
	if err == nil {
		err = do(ctx, h)
	}
	if err := errors.Join(err, h.stopEngine()); err != nil {
		return err
	}
	stop()
	if err := remove(); err != nil {
		return err
	}
	return n.remove(ctx)
}

var engineLine = regexp.MustCompile(`("Serving") `)

// startEngine starts the operator, and returns when it serves the declaration.
func (h *hosting) startEngine(ctx context.Context, env []string, flags ...string) (err error) {
	if h.engine, err = h.startOperator(ctx, h.kubeconfig, env, append(flags, flagsOf(h.controller)...)...); err != nil {
		return err
	}
	_, err = h.engine.awaitLine(ctx, engineLine)
	return err
}

func (h *hosting) stopEngine() error {
	if h.engine == nil {
		return nil
	}
	engine := h.engine
	h.engine = nil
	return engine.stop()
}

// createParents creates that number of parents, the first with this number.
func (h *hosting) createParents(ctx context.Context, first, number int, spec parentSpec) error {
	return inParallel(ctx, writers, number, func(ctx context.Context, i int) error {
		return h.createParent(ctx, traffic.ObjectName(first+i), h.stage, spec)
	})
}

// converge creates parents, and starts an engine if none runs. It waits until all have the value of the spec, and the engine is at rest.
func (h *hosting) converge(ctx context.Context, first, number int, spec parentSpec) error {
	err := h.createParents(ctx, first, number, spec)
	if err == nil && h.engine == nil {
		err = h.startEngine(ctx, nil)
	}
	if err != nil {
		return err
	}
	if _, err := h.awaitParents(ctx, first+number, spec.Value); err != nil {
		return err
	}
	return sleep(ctx, calmPause)
}

// awaitParents waits until that number of parents have a value, and returns when the last one got it.
func (h *hosting) awaitParents(ctx context.Context, number int, value string) (time.Time, error) {
	return h.seen.await(ctx, number, milestone{parentsKind, value})
}

func (n *namespace) parents() dynamic.ResourceInterface {
	return n.dynamic.Resource(parentResource).Namespace(n.name)
}

func (n *namespace) createParent(ctx context.Context, name string, labels map[string]string, spec parentSpec) error {
	spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{parentLabel: name}}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return err
	}
	parent := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	parent.SetGroupVersionKind(parentResource.GroupVersion().WithKind(parentKind))
	parent.SetName(name)
	parent.SetLabels(labels)
	if _, err := n.parents().Create(ctx, parent, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating parent %s/%s: %w", n.name, name, err)
	}
	return nil
}

// setParentValue changes the value that the first parent wants.
func (n *namespace) setParentValue(ctx context.Context, value string) error {
	patch := fmt.Appendf(nil, `{"spec":{"value":%q}}`, value)
	if _, err := n.parents().Patch(ctx, traffic.ObjectName(0), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("changing the parent: %w", err)
	}
	return nil
}

// observeParents follows parents, whose mark is the value that they have got.
func (n *namespace) observeParents(ctx context.Context, o *observer, markOf func(parent *unstructured.Unstructured) string) error {
	return o.follow(ctx, parentsKind, metav1.ListOptions{}, n.parents().Watch, func(event watch.Event) (name, mark string) {
		parent := event.Object.(*unstructured.Unstructured)
		return parent.GetName(), markOf(parent)
	})
}

// observeChildren follows children, whose mark is their value.
func (n *namespace) observeChildren(ctx context.Context, o *observer) error {
	options := metav1.ListOptions{LabelSelector: parentLabel}
	return o.follow(ctx, childrenKind, options, n.kubeClient.CoreV1().ConfigMaps(n.name).Watch, func(event watch.Event) (name, mark string) {
		child := event.Object.(*corev1.ConfigMap)
		return child.Name, child.Data["value"]
	})
}

// createConfigMaps creates that number of ConfigMaps that belong to no parent. labelsOf returns the labels of the i-th; nil for the same for all.
func (n *namespace) createConfigMaps(ctx context.Context, number int, data map[string]string, labelsOf func(i int) map[string]string) error {
	return inParallel(ctx, writers, number, func(ctx context.Context, i int) error {
		labels := map[string]string{"app": "stray"}
		if labelsOf != nil {
			labels = labelsOf(i)
		}
		return n.createConfigMap(ctx, strayName(i), labels, data)
	})
}

func (n *namespace) createConfigMap(ctx context.Context, name string, labels, data map[string]string) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: data}
	if _, err := n.kubeClient.CoreV1().ConfigMaps(n.name).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating ConfigMap %s/%s: %w", n.name, name, err)
	}
	return nil
}

func strayName(i int) string { return fmt.Sprintf("stray-%05d", i) }

// setValue changes the value of a ConfigMap.
func (n *namespace) setValue(ctx context.Context, name, value string) error {
	patch := fmt.Appendf(nil, `{"data":{"value":%q}}`, value)
	if _, err := n.kubeClient.CoreV1().ConfigMaps(n.name).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("changing ConfigMap %s/%s: %w", n.name, name, err)
	}
	return nil
}
