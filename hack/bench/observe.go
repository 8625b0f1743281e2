// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

// milestoneTimeout bounds a phase of any size.
const milestoneTimeout = 10 * time.Minute

// observer sees what a user would see, on watches of its own, and when. It is the same for whoever does the work.
type observer struct {
	mu    sync.Mutex
	err   error
	kinds map[string]*seen
}

// seen is what an observer knows of one kind of things.
type seen struct {
	marks   map[string]string // by key; what has no mark is left out
	changed time.Time         // when a mark was given or taken last
	changes int               // that were watched, whatever became of the marks
}

// marker tells what a change makes of a thing: its mark, or "" for none.
type marker func(watch.Event) (key, mark string)

const (
	eventsSeen = "events"
	posted     = "posted"
)

func newObserver() *observer { return &observer{kinds: map[string]*seen{}} }

// of a kind what is known. The caller holds the lock.
func (o *observer) of(kind string) *seen {
	if o.kinds[kind] == nil {
		o.kinds[kind] = &seen{marks: map[string]string{}}
	}
	return o.kinds[kind]
}

// opening is the Watch method of a client.
type opening func(context.Context, metav1.ListOptions) (watch.Interface, error)

// follow watches things of a kind until the context ends. It begins with what there is.
func (o *observer) follow(ctx context.Context, kind string, options metav1.ListOptions, open opening, mark marker) error {
	watcher, err := open(ctx, options)
	if err != nil {
		return fmt.Errorf("watching %s: %w", kind, err)
	}
	go func() {
		err := o.keepWatching(ctx, kind, watcher, options, open, mark)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = fmt.Errorf("the watch of %s has ended: %w", kind, err)
	}()
	return nil
}

// keepWatching goes on where a watch was cut off: the API server does not wait for a client that is slow, as all are on a
// machine that has too much to do.
func (o *observer) keepWatching(ctx context.Context, kind string, watcher watch.Interface, options metav1.ListOptions, open opening, mark marker) (err error) {
	for {
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(metav1.Object)
			if event.Type == watch.Error || !ok {
				watcher.Stop()
				return apierrors.FromObject(event.Object)
			}
			o.saw(kind, event, mark)
			options.ResourceVersion = newer(options.ResourceVersion, object.GetResourceVersion())
		}
		watcher.Stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if watcher, err = open(ctx, options); err != nil {
			return err
		}
	}
}

// newer of two resourceVersions, the first of which may be empty: a watch begins with what there is, in any order.
func newer(a, b string) string {
	if order, err := resourceversion.CompareResourceVersion(a, b); err == nil && order > 0 {
		return a
	}
	return b
}

// followEvents watches the events about objects of a kind.
func (o *observer) followEvents(ctx context.Context, p *population, kind string) error {
	return o.follow(ctx, eventsSeen, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind}, p.kubeClient.CoreV1().Events(p.namespace).Watch,
		func(event watch.Event) (key, mark string) { return string(event.Object.(*corev1.Event).UID), posted })
}

func (o *observer) saw(kind string, event watch.Event, mark marker) {
	key, now := mark(event)
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.of(kind)
	seen.changes++
	if seen.marks[key] == now {
		return
	}
	seen.changed = time.Now()
	if now == "" {
		delete(seen.marks, key)
	} else {
		seen.marks[key] = now
	}
}

// changes of a kind that were watched so far.
func (o *observer) changes(kind string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of(kind).changes
}

// await waits until the things of so many objects have the mark, and returns when the last of them got it.
func (o *observer) await(ctx context.Context, objects int, m milestone) (time.Time, error) {
	return o.awaitThat(ctx, objects*max(1, m.each), m, func(marks map[string]string) (marked int) {
		for _, mark := range marks {
			if mark == m.mark {
				marked++
			}
		}
		return marked
	})
}

// awaitThat waits until so many of the marks count.
func (o *observer) awaitThat(ctx context.Context, count int, m milestone, counting func(marks map[string]string) int) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, milestoneTimeout)
	defer cancel()
	for {
		o.mu.Lock()
		seen := o.of(m.kind)
		now, changed, err := counting(seen.marks), seen.changed, o.err
		o.mu.Unlock()
		switch {
		case now >= count:
			return changed, nil
		case ctx.Err() != nil: // which ends the watches too
			return changed, fmt.Errorf("waiting for %d %s to be %s, of which %d are: %w", count, m.kind, m.mark, now, context.Cause(ctx))
		case err != nil:
			return changed, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}
