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
	"k8s.io/apimachinery/pkg/watch"
)

// milestoneTimeout bounds how long an observer waits.
const milestoneTimeout = 10 * time.Minute

// The kind and the mark of events.
const (
	events = "events"
	posted = "posted"
)

// milestone is a mark that a number of objects of a kind must have.
type milestone struct{ kind, mark string }

// observer watches what a user would see, and when. It is the same for the operator and for the bare client.
type observer struct {
	fail  context.CancelCauseFunc
	mu    sync.Mutex
	kinds map[string]*observation
}

// observation is what an observer has seen of one kind.
type observation struct {
	marks   map[string]string // by name
	changed time.Time         // when a mark changed last
}

// marker returns what an event makes of an object: its name, and its mark or "".
type marker func(watch.Event) (name, mark string)

func (b *bench) newObserver() *observer {
	return &observer{fail: b.fail, kinds: map[string]*observation{}}
}

// of returns the observation of a kind. The caller holds the lock.
func (o *observer) of(kind string) *observation {
	if o.kinds[kind] == nil {
		o.kinds[kind] = &observation{marks: map[string]string{}}
	}
	return o.kinds[kind]
}

// opening is the Watch method of a client.
type opening func(context.Context, metav1.ListOptions) (watch.Interface, error)

// follow watches objects of a kind until the context ends. It begins with those that exist.
func (o *observer) follow(ctx context.Context, kind string, options metav1.ListOptions, open opening, mark marker) error {
	watcher, err := open(ctx, options)
	if err != nil {
		return fmt.Errorf("watching %s: %w", kind, err)
	}
	go func() {
		if err := o.keepWatching(ctx, kind, watcher, options, open, mark); ctx.Err() == nil {
			o.fail(fmt.Errorf("watching %s: %w", kind, err))
		}
	}()
	return nil
}

// keepWatching opens a watch again when it was closed: the API server does not wait for slow clients, and on a busy machine all are slow. A
// new watch begins with the objects that exist; deletions do not matter.
func (o *observer) keepWatching(ctx context.Context, kind string, watcher watch.Interface, options metav1.ListOptions, open opening, mark marker) (err error) {
	for {
		for event := range watcher.ResultChan() {
			if event.Type != watch.Error {
				o.observe(kind, event, mark)
				continue
			}
			if err := apierrors.FromObject(event.Object); !apierrors.IsTimeout(err) { // its cache is behind, on a busy machine
				watcher.Stop()
				return err
			}
			break
		}
		watcher.Stop()
		if ctx.Err() != nil {
			return nil
		}
		if watcher, err = open(ctx, options); err != nil {
			return err
		}
	}
}

// followEvents watches the events about objects of a kind.
func (o *observer) followEvents(ctx context.Context, n *namespace, kind string) error {
	options := metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind}
	return o.follow(ctx, events, options, n.kubeClient.CoreV1().Events(n.name).Watch, func(event watch.Event) (name, mark string) {
		return event.Object.(*corev1.Event).Name, posted
	})
}

func (o *observer) observe(kind string, event watch.Event, mark marker) {
	name, now := mark(event)
	o.record(kind, name, now)
}

// record records the mark of an object.
func (o *observer) record(kind, name, now string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if seen := o.of(kind); seen.marks[name] != now {
		seen.marks[name], seen.changed = now, time.Now()
	}
}

// marked returns how many objects have the mark, and when a mark changed last.
func (o *observer) marked(m milestone) (number int, changed time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.of(m.kind)
	for _, mark := range seen.marks {
		if mark == m.mark {
			number++
		}
	}
	return number, seen.changed
}

// await waits until that number of objects have the mark, and returns when the last of them got it.
func (o *observer) await(ctx context.Context, number int, m milestone) (reached time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, milestoneTimeout)
	defer cancel()
	now := 0
	err = poll(ctx, fmt.Sprintf("%d %s to be %s", number, m.kind, m.mark), func() bool {
		now, reached = o.marked(m)
		return now >= number
	})
	if err != nil {
		err = fmt.Errorf("%w: %d are", err, now)
	}
	return reached, err
}
