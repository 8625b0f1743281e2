// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// gather reads the caches. It returns nil if there is nothing to decide.
func (c *Controller) gather(key cache.ObjectName) (*observed, error) {
	container, err := c.containerLister.ImmortalContainers(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.memories.Forget(key)
		c.consistency.Clear(key)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pod, err := c.podLister.Pods(key.Namespace).Get(podName(key.Name))
	switch {
	case apierrors.IsNotFound(err):
		pod = nil
	case err != nil:
		return nil, err
	}
	return &observed{
		container: container,
		pod:       pod,
		memory:    c.memories.Get(key, container.UID),
		now:       time.Now(),
	}, nil
}

// Answer implements controller.Reconciler. It reads the live Pod.
func (r *reconciler) Answer(ctx context.Context, _ controller.Ask) error {
	pod, err := r.kubeClient.CoreV1().Pods(r.key.Namespace).Get(ctx, podName(r.key.Name), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		pod = nil
	case err != nil:
		return fmt.Errorf("reading Pod %s: %w", klog.KRef(r.key.Namespace, podName(r.key.Name)), err)
	default:
		r.memories.saw(r.key, pod)
	}
	r.observed.pod, r.observed.live = pod, true
	r.observed.memory = r.memories.Get(r.key, r.observed.container.UID)
	return nil
}

// liveContainer reads the ImmortalContainer that was decided for. The error is controller.ErrStop if it is gone or being deleted.
func (r *reconciler) liveContainer(ctx context.Context) (*v1alpha1.ImmortalContainer, error) {
	live, err := r.client.ImmortalcontainersV1alpha1().ImmortalContainers(r.key.Namespace).Get(ctx, r.key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (live.UID != r.observed.container.UID || live.DeletionTimestamp != nil):
		return nil, controller.ErrStop
	case err != nil:
		return nil, fmt.Errorf("reading ImmortalContainer %s: %w", r.key, err)
	}
	return live, nil
}
