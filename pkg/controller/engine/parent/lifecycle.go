// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/objectcache"
)

// Start starts syncing parents, queues all of them, and returns their number. HasSynced must have been true.
func (c *Controller) Start() int {
	if c.spec.kind == Composite {
		c.indexOrphans()
	} else {
		c.eachParent(func(of *parents, parent *objectcache.RawObject) {
			c.state(of, c.parentKey(of, parent).objectName(), parent.GetUID()) // so that all are counted
		})
	}
	c.started.Store(true)
	keys := c.knownParents()
	c.Queue.EnqueueResync(keys...)
	return len(keys)
}

// indexOrphans matches each orphan with the selectors of all parents, so that the first sync of each parent need not list all orphans.
func (c *Controller) indexOrphans() {
	c.eachParent(func(of *parents, parent *objectcache.RawObject) {
		k := c.parentKey(of, parent)
		if state, isNew := c.state(of, k.objectName(), parent.GetUID()); isNew {
			// A selector that cannot be read is reported by the sync of the parent.
			if selector, err := c.spec.selectorOf(parent); err == nil {
				state.selector, state.specVersion = selector, specVersionOf(parent)
				c.orphans.setSelector(k, selector)
			}
		}
	})
	for i, handle := range c.children {
		for _, o := range handle.Ownerless("", nil) {
			c.orphans.observe(location{i, o.GetNamespace(), o.GetName()}, o)
		}
	}
}

// eachParent calls visit with each parent that is observed.
func (c *Controller) eachParent(visit func(of *parents, parent *objectcache.RawObject)) {
	for _, of := range c.parents {
		for _, parent := range of.handle.List("", nil) {
			if c.spec.isParent(of.parentType, parent) {
				visit(of, parent)
			}
		}
	}
}

// knownParents returns the keys of all parents, and of those that were deleted and not yet forgotten. It is called when changes are queued
// already: each parent that was created or deleted before, while they were not, is among them.
func (c *Controller) knownParents() []Key {
	keys := sets.New[Key]()
	c.eachParent(func(of *parents, parent *objectcache.RawObject) { keys.Insert(c.parentKey(of, parent)) })
	for _, of := range c.parents {
		for _, name := range of.states.Keys() {
			keys.Insert(c.keyOf(of, name.Namespace, name.Name))
		}
	}
	return keys.UnsortedList()
}

// Started reports whether parents are synced.
func (c *Controller) Started() bool { return c.started.Load() }

// Pause stops syncing parents until Start: a resource is not watched, and nothing must be decided from its stale cache.
func (c *Controller) Pause() { c.started.Store(false) }

// Stop ends all syncs, cancels the calls of hooks, waits for running writes, and releases everything that is held.
func (c *Controller) Stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.Pause()
	c.cancelCalls(errStopped)
	c.syncs.Wait()
	for _, release := range c.release {
		release()
	}
}

// enter begins a sync, and returns false if the Controller is stopped. After true the caller must call leave.
func (c *Controller) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.syncs.Add(1)
	}
	return !c.stopped
}

func (c *Controller) leave() { c.syncs.Done() }
