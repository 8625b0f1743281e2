// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/objectcache"
)

// parentKey is that of a parent by its name.
func (h *hosted) parentKey(namespace, name string) key {
	return key{controller: h.uid, resource: h.rules.parent.GroupResource(), namespace: namespace, name: name}
}

// parentChanged queues a parent that was added, changed or deleted.
func (c *Controller) parentChanged(h *hosted, before, after *objectcache.RawObject) {
	if !h.ready.Load() {
		return // all are queued when it is
	}
	if !h.rules.finalize && before != nil && hasFinalizer(before, h.rules.finalizer) && (after == nil || !hasFinalizer(after, h.rules.finalizer)) {
		c.Enqueue(controllerKey(h.name)) // that may have been the last one with ours: see keepFinalizer
	}
	some := after
	if some == nil {
		some = before
	}
	switch {
	case before == nil || after == nil:
		if !h.rules.counts(some) {
			return
		}
	case !h.rules.matters(before, after):
		return
	}
	c.Enqueue(h.parentKey(some.GetNamespace(), some.GetName()))
}

// childChanged queues the parents that an object belongs to, or that may adopt it.
func (c *Controller) childChanged(h *hosted, of int, before, after *objectcache.RawObject) {
	if after != nil && after.ControllerUID() == "" {
		// Also before it is ready: what was seen then is not looked for again.
		for _, parent := range h.orphans.observed(orphan{of, after.GetNamespace(), after.GetName()}, after) {
			if h.ready.Load() {
				c.Enqueue(parent)
			}
		}
	}
	if !h.ready.Load() {
		return
	}
	if after == nil {
		for _, parent := range h.blocked.freed(place{of, before.GetNamespace(), before.GetName()}) {
			c.Enqueue(parent)
		}
	}
	var queued key
	for _, child := range []*objectcache.RawObject{before, after} {
		if child == nil {
			continue
		}
		if parent, found := h.parentOf(child, after == nil); found && parent != queued {
			c.Enqueue(parent)
			queued = parent
		}
	}
}

// parentOf is the parent that is the controller of an object. The version of its kind does not matter. For an object that has gone it may
// also be another one of that name, which the child was in the way of.
func (h *hosted) parentOf(child *objectcache.RawObject, gone bool) (key, bool) {
	owner, found := child.Controller()
	if !found || owner.Kind != h.rules.parent.Kind {
		return key{}, false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil || version.Group != h.rules.parent.Group {
		return key{}, false
	}
	namespace := ""
	if h.rules.parent.Namespaced {
		namespace = child.GetNamespace()
	}
	parent := h.parents.Get(namespace, owner.Name)
	if parent == nil || parent.GetUID() != owner.UID && !gone || !h.rules.counts(parent) {
		return key{}, false
	}
	return h.parentKey(namespace, owner.Name), true
}
