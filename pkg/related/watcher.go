// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/objectcache"
)

// releaseDelay is how long a watch stays after no rule needs it: a parent that is deleted is often created again, and rules change.
const releaseDelay = 15 * time.Second

// Watcher holds what the rules of all parents of one controller need, and queues the parents whose related objects change. Its methods may be
// called concurrently.
type Watcher[K comparable] struct {
	acquire func(objectcache.Request) (handle, error)
	enqueue func(keys ...K)
	// problemChanged is called when Problem may have changed.
	problemChanged func()
	index          Index[K]

	mu      sync.RWMutex // before those of the index and of the cache
	rules   map[K]*Rules
	demand  demand
	watches map[schema.GroupVersionResource]map[extent]*watch
	// waiting are the keys that were not synced when they were asked for, with the problem that was returned, by each resource that
	// keeps them waiting.
	waiting map[schema.GroupVersionResource]map[K]string
	sweep   *time.Timer // runs while there are watches that no rule needs
	closed  bool
}

// handle is the part of an objectcache.Handle that a Watcher needs.
type handle interface {
	Get(namespace, name string) *objectcache.RawObject
	Named(name string) []*objectcache.RawObject
	List(namespace string, selector labels.Selector) []*objectcache.RawObject
	Release()
}

// watch is one that is held.
type watch struct {
	scope
	handle  handle
	synced  bool
	problem error
	// unneeded is when the last rule that needed it was gone; zero while one does.
	unneeded time.Time
}

// Status is whether the related objects of a parent can be selected.
type Status struct {
	// Synced reports whether all that its rules need is there. Nothing must be selected before. If it is false, the key is queued when it
	// is true, or when the problem is another one.
	Synced bool
	// Problem is why something cannot be listed or watched: it names the RBAC rule that is missing, or the resource that is not served. It
	// is nil while there is merely no answer yet.
	Problem error
}

// NewWatcher returns a Watcher. The enqueue function is called with the keys of parents whose related objects may have changed; it must not
// block, nor call the Watcher; nor must problemChanged, which is called when Problem may have changed. Call Close when the controller stops.
func NewWatcher[K comparable](objects *objectcache.Cache, enqueue func(keys ...K), problemChanged func()) *Watcher[K] {
	return newWatcher(func(request objectcache.Request) (handle, error) {
		acquired, err := objects.Acquire(request)
		if err != nil {
			return nil, err // a nil *Handle would be a handle
		}
		return acquired, nil
	}, enqueue, problemChanged)
}

func newWatcher[K comparable](acquire func(objectcache.Request) (handle, error), enqueue func(keys ...K), problemChanged func()) *Watcher[K] {
	return &Watcher[K]{
		acquire: acquire,
		enqueue: enqueue,

		problemChanged: problemChanged,

		rules:   map[K]*Rules{},
		demand:  demand{},
		watches: map[schema.GroupVersionResource]map[extent]*watch{},
		waiting: map[schema.GroupVersionResource]map[K]string{},
	}
}

// errClosed is the problem after Close.
var errClosed = errors.New("the controller stops, and its watches of related objects have ended")

// Ensure makes the rules those of the key, in place of earlier ones, and watches what they need. It does not wait for it. It costs next to
// nothing if the rules are the same as before.
func (w *Watcher[K]) Ensure(key K, rules *Rules) Status {
	if status := w.known(key, rules); status.Synced {
		return status
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return Status{Problem: errClosed}
	}
	if before := w.rules[key]; before == nil || before != rules && !before.Equal(rules) {
		w.stopWaiting(key)
		w.index.Set(key, rules)
		w.rules[key] = rules
		w.require(rules, before)
	}
	status := w.status(rules)
	if !status.Synced {
		w.wait(key, status)
	}
	return status
}

// known returns the status of a key whose rules are the same as before, else none.
func (w *Watcher[K]) known(key K, rules *Rules) Status {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if before := w.rules[key]; before == nil || before != rules && !before.Equal(rules) {
		return Status{}
	}
	return w.status(rules)
}

// Select returns what the rules of the key select now. The selection is empty unless the status is synced.
func (w *Watcher[K]) Select(key K) (Selection, Status) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	rules := w.rules[key]
	if rules == nil {
		return Selection{}, Status{Problem: errors.New("related objects are selected for a parent without rules")}
	}
	status := w.status(rules)
	if !status.Synced {
		return Selection{}, status
	}
	return rules.Select(reader[K]{w}), status
}

// Release forgets the key.
func (w *Watcher[K]) Release(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rules := w.rules[key]
	if rules == nil {
		return
	}
	w.stopWaiting(key)
	w.index.Delete(key)
	delete(w.rules, key)
	w.require(nil, rules)
}

// Close ends all watches. No key is queued after it.
func (w *Watcher[K]) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.sweep != nil {
		w.sweep.Stop()
	}
	for _, watches := range w.watches {
		for _, held := range watches {
			held.release()
		}
	}
	for key := range w.rules {
		w.index.Delete(key)
	}
	clear(w.rules)
	clear(w.watches)
	clear(w.waiting)
	clear(w.demand)
}

// Problem returns why one of the watches that rules need cannot be listed or watched, or nil. It is the same one while there are several. A watch
// in the place of several, which is forbidden, is none: the several are watched.
func (w *Watcher[K]) Problem() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	var first *watch
	for _, watches := range w.watches {
		for _, held := range watches {
			if held.problem == nil || !held.unneeded.IsZero() || held.isForbidden() && !w.demand.needs(held.extent) {
				continue
			}
			if first == nil || compareExtents(held.extent, first.extent) < 0 {
				first = held
			}
		}
	}
	if first == nil {
		return nil
	}
	return first.explain()
}

// Counts are for metrics.
type Counts struct {
	// Parents with rules, Rules that differ, and Watches that are held.
	Parents, Rules, Watches int
}

// Counts returns what there is.
func (w *Watcher[K]) Counts() Counts {
	w.mu.RLock()
	defer w.mu.RUnlock()
	counts := Counts{}
	counts.Parents, counts.Rules = w.index.Len()
	for _, watches := range w.watches {
		counts.Watches += len(watches)
	}
	return counts
}

func (held *watch) release() {
	if held.handle != nil {
		held.handle.Release()
	}
}

// explain returns the problem as one of related objects.
func (held *watch) explain() error { return fmt.Errorf("related objects: %w", held.problem) }
