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

	"millwright.dev/hack/bench/traffic"
)

const (
	// writers is the number of requests that this program sends concurrently where it is not measured.
	writers = 64
	// goneTimeout bounds how long a namespace with its objects may take to go.
	goneTimeout = 10 * time.Minute
)

// namespace holds the objects of one measurement.
type namespace struct {
	*cluster
	name string
}

// newNamespace creates a namespace in which Pods can be created. All names have one length: recorded requests are sent again in
// another namespace, and are to have the same size.
func (b *bench) newNamespace(ctx context.Context) (*namespace, error) {
	b.namespaces++
	n := &namespace{cluster: b.cluster, name: fmt.Sprintf("bench-%04d", b.namespaces)}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
	if _, err := b.kubeClient.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating namespace %s: %w", n.name, err)
	}
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := b.kubeClient.CoreV1().ServiceAccounts(n.name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the default ServiceAccount of namespace %s: %w", n.name, err)
	}
	return n, nil
}

// remove deletes the namespace and waits until it is gone, so that the next measurement finds the control plane at rest.
func (n *namespace) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	namespaces := n.kubeClient.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, n.name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting namespace %s: %w", n.name, err)
	}
	err := wait.PollUntilContextCancel(ctx, 10*pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, n.name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting until namespace %s is gone: %w", n.name, err)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// createObjects calls create with the names of that number of objects.
func createObjects(ctx context.Context, number int, create func(ctx context.Context, name string) error) error {
	return inParallel(ctx, writers, number, func(ctx context.Context, i int) error {
		name := traffic.ObjectName(i)
		if err := create(ctx, name); err != nil {
			return fmt.Errorf("creating an object for %s: %w", name, err)
		}
		return nil
	})
}

// inParallel calls do with every number below the limit, by that number of goroutines, and stops at the first error.
func inParallel(ctx context.Context, goroutines, limit int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var once sync.Once
	var first error
	workqueue.ParallelizeUntil(ctx, goroutines, limit, func(i int) {
		if err := do(ctx, i); err != nil {
			once.Do(func() { first = err })
			cancel()
		}
	})
	if first == nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return first
}
