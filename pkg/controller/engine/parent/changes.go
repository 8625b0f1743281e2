// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/objectcache"
)

// parentKey returns the key of a parent.
func (c *Controller) parentKey(of *parents, parent object) Key {
	return c.keyOf(of, parent.GetNamespace(), parent.GetName())
}

func (c *Controller) keyOf(of *parents, namespace, name string) Key {
	return Key{Controller: c.uid, Resource: of.GroupResource(), Namespace: namespace, Name: name}
}

// parentsOf returns the parents of a type, nil if it is none.
func (c *Controller) parentsOf(of schema.GroupResource) *parents {
	for _, p := range c.parents {
		if p.GroupResource() == of {
			return p
		}
	}
	return nil
}

// parentChanged queues a parent that was added, changed or deleted.
func (c *Controller) parentChanged(of *parents, before, after *objectcache.RawObject) {
	if !c.started.Load() {
		return // Start queues all
	}
	if !c.spec.finalize && before != nil && hasFinalizer(before, c.spec.finalizer) && (after == nil || !hasFinalizer(after, c.spec.finalizer)) {
		c.Changed() // the last finalizer may be gone, and AnyFinalizer false now
	}
	some := after
	if some == nil {
		some = before
	}
	switch {
	case before == nil || after == nil:
		if !c.spec.isParent(of.parentType, some) {
			return
		}
	case !c.spec.needsSync(of.parentType, before, after):
		return
	}
	c.Queue.Enqueue(c.parentKey(of, some))
}

// childChanged queues the parents that own an object of the i-th type of children, or that may adopt it.
func (c *Controller) childChanged(i int, before, after *objectcache.RawObject) {
	if c.spec.kind == Composite && before != nil && before.ControllerUID() == "" {
		if parents := c.orphans.drop(location{i, before.GetNamespace(), before.GetName()}, before); c.started.Load() {
			c.Queue.Enqueue(parents...)
		}
	}
	if c.spec.kind == Composite && after != nil && after.ControllerUID() == "" {
		// Observed before Start, too: Start does not list it again.
		for _, parent := range c.orphans.observe(location{i, after.GetNamespace(), after.GetName()}, after) {
			if c.started.Load() {
				c.Queue.Enqueue(parent)
			}
		}
	}
	if !c.started.Load() {
		return
	}
	if after == nil {
		c.Queue.Enqueue(c.blocked.unblock(location{i, before.GetNamespace(), before.GetName()})...)
	}
	var queued Key
	for _, child := range []*objectcache.RawObject{before, after} {
		if child == nil {
			continue
		}
		if parent, found := c.parentOf(child, after == nil); found && parent != queued {
			c.Queue.Enqueue(parent)
			queued = parent
		}
	}
}

// recordChanged queues the parent whose revision a ControllerRevision records.
func (c *Controller) recordChanged(before, after *objectcache.RawObject) {
	record := after
	if record == nil {
		record = before
	}
	if parent, found := c.parentOf(record, after == nil); found && c.started.Load() {
		c.Queue.Enqueue(parent)
	}
}

// parentOf returns the parent that is the controller owner of an object, whatever the version of its kind. For a deleted object it may also
// be another parent of the same name, which the child was in the way of.
func (c *Controller) parentOf(child *objectcache.RawObject, deleted bool) (Key, bool) {
	owner, found := child.Controller()
	if !found || !deleted && !c.spec.mayHaveCreated(child, owner.UID) {
		return Key{}, false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return Key{}, false
	}
	for _, of := range c.parents {
		if owner.Kind != of.Kind || version.Group != of.Group {
			continue
		}
		namespace := ""
		if of.Namespaced {
			namespace = child.GetNamespace()
		}
		parent := of.handle.Get(namespace, owner.Name)
		if parent == nil || parent.GetUID() != owner.UID && !deleted || !c.spec.isParent(of.parentType, parent) {
			continue
		}
		return c.parentKey(of, parent), true
	}
	return Key{}, false
}
