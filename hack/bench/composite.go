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
	"k8s.io/utils/ptr"

	"millwright.dev/hack/bench/traffic"
	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
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

// engineFlags are those of an operator that serves CompositeControllers, and nothing else.
var engineFlags = []string{"--controllers=compositecontroller"}

// hosting is a CompositeController and a namespace with its parents, which have the label stage.
type hosting struct {
	*turn
	*namespace
	stage      map[string]string
	seen       *observer // of the parents and their children
	kubeconfig string    // of the engine
	engine     *operator // nil while none runs
}

// host creates a CompositeController, calls do, and removes everything. It starts no engine. The query is that of the hook's URL.
func (t *turn) host(ctx context.Context, query string, do func(ctx context.Context, h *hosting) error) error {
	if t.hook == nil {
		if err := t.startHook("127.0.0.1:0"); err != nil {
			return err
		}
	}
	n, err := t.newNamespace(ctx)
	if err != nil {
		return err
	}
	h := &hosting{turn: t, namespace: n, stage: map[string]string{"stage": n.name}, seen: t.newObserver(), kubeconfig: t.kubeconfig()}
	controllers := t.client.MetacontrollerV1alpha1().CompositeControllers()
	if _, err := controllers.Create(ctx, h.compositeController(query), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating CompositeController %s: %w", n.name, err)
	}
	observing, stop := context.WithCancel(ctx)
	defer stop()
	err = errors.Join(n.observeParents(observing, h.seen), n.observeChildren(observing, h.seen))
	if err == nil {
		err = do(ctx, h)
	}
	if err := errors.Join(err, h.stopEngine()); err != nil {
		return err
	}
	stop()
	if err := controllers.Delete(ctx, n.name, metav1.DeleteOptions{}); err != nil { // without a finalizer, since its hook has no finalize
		return fmt.Errorf("deleting CompositeController %s: %w", n.name, err)
	}
	return n.remove(ctx)
}

func (h *hosting) compositeController(query string) *v1alpha1.CompositeController {
	url := "http://" + h.hookAddress + "/sync" + query
	return &v1alpha1.CompositeController{
		ObjectMeta: metav1.ObjectMeta{Name: h.namespace.name},
		Spec: v1alpha1.CompositeControllerSpec{
			ParentResource: v1alpha1.CompositeControllerParentResourceRule{
				ResourceRule:  v1alpha1.ResourceRule{APIVersion: parentResource.GroupVersion().String(), Resource: parentResource.Resource},
				LabelSelector: &metav1.LabelSelector{MatchLabels: h.stage},
			},
			ChildResources: []v1alpha1.CompositeControllerChildResourceRule{{
				ResourceRule:   v1alpha1.ResourceRule{APIVersion: "v1", Resource: "configmaps"},
				UpdateStrategy: &v1alpha1.CompositeControllerChildUpdateStrategy{Method: v1alpha1.ChildUpdateInPlace},
			}},
			Hooks: &v1alpha1.CompositeControllerHooks{Sync: &v1alpha1.Hook{Webhook: &v1alpha1.Webhook{URL: ptr.To(url)}}},
		},
	}
}

var engineLine = regexp.MustCompile(`("Serving") `)

// startEngine starts the operator, and returns when it serves the CompositeController.
func (h *hosting) startEngine(ctx context.Context, env []string, flags ...string) (err error) {
	if h.engine, err = h.startOperator(ctx, h.kubeconfig, env, append(flags, engineFlags...)...); err != nil {
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

// converge creates that number of parents, the first with this number, and starts an engine if none runs. It waits until all have the value
// of the spec, and the engine is at rest.
func (h *hosting) converge(ctx context.Context, first, number int, spec parentSpec) error {
	err := inParallel(ctx, writers, number, func(ctx context.Context, i int) error {
		return h.createParent(ctx, traffic.ObjectName(first+i), h.stage, spec)
	})
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

// observeParents follows parents, whose mark is the value in a status that was written about the present spec.
func (n *namespace) observeParents(ctx context.Context, o *observer) error {
	return o.follow(ctx, parentsKind, metav1.ListOptions{}, n.parents().Watch, func(event watch.Event) (name, mark string) {
		parent := event.Object.(*unstructured.Unstructured)
		if observed, found, err := unstructured.NestedInt64(parent.Object, "status", "observedGeneration"); found && err == nil && observed == parent.GetGeneration() {
			mark, _, _ = unstructured.NestedString(parent.Object, "status", "value")
		}
		return parent.GetName(), mark
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

// createConfigMaps creates that number of ConfigMaps that belong to no parent.
func (n *namespace) createConfigMaps(ctx context.Context, number int, data map[string]string) error {
	return inParallel(ctx, writers, number, func(ctx context.Context, i int) error {
		stray := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: strayName(i), Labels: map[string]string{"app": "stray"}}, Data: data}
		if _, err := n.kubeClient.CoreV1().ConfigMaps(n.name).Create(ctx, stray, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating ConfigMap %s/%s: %w", n.name, stray.Name, err)
		}
		return nil
	})
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
