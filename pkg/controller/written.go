// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// RecheckDelay is when to look again where a cache has not reached what was written. As a rule an event comes before that;
// but what was written may be gone before the watch has shown it, and then none comes.
const RecheckDelay = time.Second

// Store is a cache that knows up to which resourceVersion it has seen its resource. Every cache.Store is one.
type Store interface {
	// LastStoreSyncResourceVersion is "" where the store cannot tell.
	LastStoreSyncResourceVersion() string
}

// Written remembers, per key, the resourceVersions of our own writes, so that a sync does not decide from a cache that
// has not seen them yet. kube-controller-manager guards itself in the same way since 1.36.
//
// It needs no clean-up beyond Forget for keys that are gone: what a store has reached is dropped when it is asked for.
type Written[K comparable] struct {
	mu     sync.Mutex
	writes map[K]map[Store]string
	// rechecks are the keys that are to be looked at again.
	rechecks map[K]struct{}
}

// Wrote records that a write for the key left an object of the store's resource at the resourceVersion.
func (w *Written[K]) Wrote(key K, store Store, resourceVersion string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writes == nil {
		w.writes = map[K]map[Store]string{}
	}
	if w.writes[key] == nil {
		w.writes[key] = map[Store]string{}
	}
	if old := w.writes[key][store]; old == "" || !reached(old, resourceVersion) {
		w.writes[key][store] = resourceVersion
	}
}

// Reached tells whether every store has seen all our writes for the key. Where it has not, look again after RecheckDelay.
func (w *Written[K]) Reached(key K) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for store, version := range w.writes[key] {
		if !reached(store.LastStoreSyncResourceVersion(), version) {
			return false
		}
	}
	delete(w.writes, key)
	return true
}

// Recheck enqueues the key after RecheckDelay, unless it has been found Reached by then. It is for syncs that cost something, like a call
// of a hook: who requeues a key after RecheckDelay syncs it then though an event has led to a sync before.
func (w *Written[K]) Recheck(key K, enqueue func(...K)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, awaited := w.rechecks[key]; awaited {
		return
	}
	if w.rechecks == nil {
		w.rechecks = map[K]struct{}{}
	}
	w.rechecks[key] = struct{}{}
	time.AfterFunc(RecheckDelay, func() {
		w.mu.Lock()
		delete(w.rechecks, key)
		_, waits := w.writes[key]
		w.mu.Unlock()
		if waits {
			enqueue(key)
		}
	})
}

// Forget drops what is known of a key whose object is gone.
func (w *Written[K]) Forget(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.writes, key)
}

// reached tells whether seen is at least as new as written. Versions that cannot be compared (those of fakes) count as
// reached: the guard is an addition to the fences of each controller, and must never block one.
func reached(seen, written string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, written)
	return err != nil || order >= 0
}
