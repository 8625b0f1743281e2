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

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

const (
	// writers is how many requests we send at the same time to create or delete everything at once. More of them write no
	// faster on the machines that this was made for.
	writers = 64
	image   = "nginx:latest"
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

// create makes the ImmortalContainers.
func (p *population) create(ctx context.Context) error {
	containers := p.client.ImmortalcontainersV1alpha1().ImmortalContainers(p.namespace)
	return inParallel(ctx, p.count, func(ctx context.Context, i int) error {
		_, err := containers.Create(ctx, &v1alpha1.ImmortalContainer{
			ObjectMeta: metav1.ObjectMeta{Name: objectName(i)},
			Spec:       v1alpha1.ImmortalContainerSpec{Image: image},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating ImmortalContainer %s/%s: %w", p.namespace, objectName(i), err)
		}
		return nil
	})
}

// deletePods deletes all Pods with their default grace period, in parallel: a single request for all of them is carried out
// one by one in the API server, and would set the pace.
func (p *population) deletePods(ctx context.Context, names []string) error {
	pods := p.kubeClient.CoreV1().Pods(p.namespace)
	return inParallel(ctx, len(names), func(ctx context.Context, i int) error {
		if err := pods.Delete(ctx, names[i], metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting Pod %s/%s: %w", p.namespace, names[i], err)
		}
		return nil
	})
}

func (p *population) podNames(ctx context.Context) ([]string, error) {
	pods, err := p.kubeClient.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods of namespace %s: %w", p.namespace, err)
	}
	names := make([]string, 0, len(pods.Items))
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names, nil
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
