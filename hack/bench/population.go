// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

const (
	// writers is how many requests we send at the same time to create or delete everything at once. More of them write no
	// faster on the machines that this was made for.
	writers = 64
	// goneTimeout bounds how long a namespace with its Pods may take to go.
	goneTimeout = 5 * time.Minute
)

// population is a number of objects in a namespace of its own.
type population struct {
	*cluster
	namespace string
	count     int
}

// newPopulation makes a namespace in which Pods can be created. The name is as long as every other: recorded requests are
// sent again in another namespace, and are to have the same size.
func (b *bench) newPopulation(ctx context.Context, count int) (*population, error) {
	b.namespaces++
	p := &population{cluster: b.cluster, namespace: fmt.Sprintf("bench-%04d", b.namespaces), count: count}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	if _, err := b.kubeClient.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating namespace %s: %w", p.namespace, err)
	}
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := b.kubeClient.CoreV1().ServiceAccounts(p.namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the default ServiceAccount of namespace %s: %w", p.namespace, err)
	}
	return p, nil
}

func objectName(i int) string { return fmt.Sprintf("web-%05d", i) }

// create makes the objects of the workload.
func (p *population) create(ctx context.Context, w *workload) error {
	if w.prepare != nil {
		if err := w.prepare(ctx, p); err != nil {
			return err
		}
	}
	return inParallel(ctx, p.count, func(ctx context.Context, i int) error { return w.create(ctx, p, objectName(i)) })
}

// remove deletes everything and waits until it is gone, so that the next run finds the control plane at rest.
func (p *population) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	namespaces := p.kubeClient.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, p.namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting namespace %s: %w", p.namespace, err)
	}
	err := wait.PollUntilContextCancel(ctx, 10*pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, p.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("waiting until namespace %s is gone: %w", p.namespace, err)
	}
	return nil
}

// inParallel calls do with every number below count, with so many writers, and stops at the first error.
func inParallel(ctx context.Context, count int, do func(ctx context.Context, i int) error) error {
	return inParallelBy(ctx, writers, count, do)
}

// inParallelBy is inParallel with another number of writers.
func inParallelBy(ctx context.Context, writers, count int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var first error
	workqueue.ParallelizeUntil(ctx, writers, count, func(i int) {
		if err := do(ctx, i); err != nil {
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
				cancel()
			}
		}
	})
	if first == nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return first
}
