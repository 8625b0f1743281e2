// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// StaleCacheDelay is the delay after which a key is synced again whose caches are stale. As a rule an event comes earlier. None comes
// if the written object is gone before the watch has shown it.
const StaleCacheDelay = time.Second

// VersionedStore is a cache that knows up to which resourceVersion it has seen its resource. Every cache.Store is one.
type VersionedStore interface {
	// LastStoreSyncResourceVersion returns "" if the store does not know its version.
	LastStoreSyncResourceVersion() string
}

// ConsistencyStore records, per key, the resourceVersions of the controller's own writes, so that no sync decides from a stale cache: one
// that has not seen these writes. kube-controller-manager has had a store of this name since 1.36.
//
// The zero value is ready to use. Clear is needed only for keys whose object is gone: IsReady drops the writes that the caches have seen.
type ConsistencyStore[K comparable] struct {
	mu     sync.Mutex
	writes map[K]map[VersionedStore]string
	// requeued are the timers of the keys that RequeueUnlessReady will enqueue.
	requeued map[K]*time.Timer
}

// WroteAt records that a write for the key left an object of the store's resource at the resourceVersion.
func (c *ConsistencyStore[K]) WroteAt(key K, store VersionedStore, resourceVersion string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes == nil {
		c.writes = map[K]map[VersionedStore]string{}
	}
	if c.writes[key] == nil {
		c.writes[key] = map[VersionedStore]string{}
	}
	if old := c.writes[key][store]; old == "" || !isReached(old, resourceVersion) {
		c.writes[key][store] = resourceVersion
	}
}

// IsReady reports whether every store has seen all recorded writes for the key. If not, the caches are stale: postpone the sync (ErrPostponed)
// for StaleCacheDelay.
func (c *ConsistencyStore[K]) IsReady(key K) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for store, version := range c.writes[key] {
		if !isReached(store.LastStoreSyncResourceVersion(), version) {
			return false
		}
	}
	c.drop(key)
	return true
}

// RequeueUnlessReady enqueues the key after StaleCacheDelay, unless IsReady returns true for it earlier: what is written afterwards is no reason.
// It is for expensive syncs, such as those that call a hook: a requeueAfter of StaleCacheDelay causes one more sync even if an event has caused
// one earlier.
func (c *ConsistencyStore[K]) RequeueUnlessReady(key K, enqueue func(...K)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requeued[key] != nil {
		return
	}
	if c.requeued == nil {
		c.requeued = map[K]*time.Timer{}
	}
	var timer *time.Timer
	timer = time.AfterFunc(StaleCacheDelay, func() {
		c.mu.Lock()
		current := c.requeued[key] == timer // a timer that fires may wait here while it is stopped
		if current {
			delete(c.requeued, key)
		}
		c.mu.Unlock()
		if current {
			enqueue(key)
		}
	})
	c.requeued[key] = timer
}

// Clear drops all records of a key whose object is gone.
func (c *ConsistencyStore[K]) Clear(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

// drop drops the writes for a key, and its timer.
func (c *ConsistencyStore[K]) drop(key K) {
	delete(c.writes, key)
	if timer := c.requeued[key]; timer != nil {
		timer.Stop()
		delete(c.requeued, key)
	}
}

// isReached reports whether the seen version is at least as new as the written one. Versions that cannot be compared, such as those of
// fake clients, count as reached: this guard is an addition to the fences of each controller, and must never block one.
func isReached(seen, written string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, written)
	return err != nil || order >= 0
}
