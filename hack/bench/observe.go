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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// readyTimeout bounds a start or a recovery of any size.
const readyTimeout = 10 * time.Minute

// observer sees what a user would see, on watches of its own, and when. It is the same for whoever does the work.
type observer struct {
	mu     sync.Mutex
	err    error
	starts map[string]int64     // of the ImmortalContainers that are Ready
	events map[types.UID]bool   // about ImmortalContainers
	pods   map[types.UID]string // those that are Ready
	last   map[string]time.Time // change, of each kind
}

// the kinds that an observer watches.
const (
	containersSeen = "ImmortalContainers"
	eventsSeen     = "events"
	podsSeen       = "Pods"
)

func newObserver() *observer {
	return &observer{starts: map[string]int64{}, events: map[types.UID]bool{}, pods: map[types.UID]string{}, last: map[string]time.Time{}}
}

// observeContainers watches ImmortalContainers and the events about them, until the context ends.
func (p *population) observeContainers(ctx context.Context) (*observer, error) {
	o := newObserver()
	err := errors.Join(
		o.follow(ctx, containersSeen, metav1.ListOptions{}, p.client.ImmortalcontainersV1alpha1().ImmortalContainers(p.namespace).Watch),
		o.follow(ctx, eventsSeen, metav1.ListOptions{FieldSelector: "involvedObject.kind=ImmortalContainer"}, p.kubeClient.CoreV1().Events(p.namespace).Watch))
	return o, err
}

// observePods watches Pods, until the context ends.
func (p *population) observePods(ctx context.Context) (*observer, error) {
	o := newObserver()
	return o, o.follow(ctx, podsSeen, metav1.ListOptions{}, p.kubeClient.CoreV1().Pods(p.namespace).Watch)
}

// follow begins with what there is.
func (o *observer) follow(ctx context.Context, kind string, options metav1.ListOptions, start func(context.Context, metav1.ListOptions) (watch.Interface, error)) error {
	watcher, err := start(ctx, options)
	if err != nil {
		return fmt.Errorf("watching %s: %w", kind, err)
	}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if event.Type == watch.Error {
				break
			}
			o.saw(kind, event)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = fmt.Errorf("the watch of %s has ended", kind)
	}()
	return nil
}

func (o *observer) saw(kind string, event watch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last[kind] = time.Now()
	switch obj := event.Object.(type) {
	case *v1alpha1.ImmortalContainer:
		if meta.IsStatusConditionTrue(obj.Status.Conditions, v1alpha1.ConditionReady) {
			o.starts[obj.Name] = obj.Status.StartTimes
		} else {
			delete(o.starts, obj.Name)
		}
	case *corev1.Event:
		o.events[obj.UID] = true
	case *corev1.Pod:
		if event.Type != watch.Deleted && obj.DeletionTimestamp == nil && podIsReady(obj) {
			o.pods[obj.UID] = obj.Name
		} else {
			delete(o.pods, obj.UID)
		}
	}
}

func podIsReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// awaitReady waits until so many ImmortalContainers are Ready in this start, and returns when the last of them became so.
func (o *observer) awaitReady(ctx context.Context, count int, start int64) (time.Time, error) {
	return o.await(ctx, count, containersSeen, "Ready", func() (ready int) {
		for _, starts := range o.starts {
			if starts == start {
				ready++
			}
		}
		return ready
	})
}

// awaitEvents waits until there are so many, and returns when the last was posted.
func (o *observer) awaitEvents(ctx context.Context, count int) (time.Time, error) {
	return o.await(ctx, count, eventsSeen, "posted", func() int { return len(o.events) })
}

// awaitPods waits until so many Pods are Ready that are none of the others, and returns when the last of them became so.
func (o *observer) awaitPods(ctx context.Context, count int, others map[types.UID]string) (time.Time, error) {
	return o.await(ctx, count, podsSeen, "Ready", func() (ready int) {
		for uid := range o.pods {
			if _, other := others[uid]; !other {
				ready++
			}
		}
		return ready
	})
}

// readyPods are their names by UID.
func (o *observer) readyPods() map[types.UID]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	pods := make(map[types.UID]string, len(o.pods))
	for uid, name := range o.pods {
		pods[uid] = name
	}
	return pods
}

func (o *observer) await(ctx context.Context, count int, kind, what string, done func() int) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		o.mu.Lock()
		now, last, err := done(), o.last[kind], o.err
		o.mu.Unlock()
		switch {
		case now >= count:
			return last, nil
		case ctx.Err() != nil: // which ends the watches too
			return last, fmt.Errorf("waiting for %d %s to be %s, of which %d are: %w", count, kind, what, now, context.Cause(ctx))
		case err != nil:
			return last, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}
