// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/objectcache"
)

// parentKey returns the key of a parent.
func (c *Controller) parentKey(namespace, name string) Key {
	return Key{Controller: c.uid, Resource: c.spec.parent.GroupResource(), Namespace: namespace, Name: name}
}

// parentChanged queues a parent that was added, changed or deleted.
func (c *Controller) parentChanged(before, after *objectcache.RawObject) {
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
		if !c.spec.isParent(some) {
			return
		}
	case !c.spec.needsSync(before, after):
		return
	}
	c.Queue.Enqueue(c.parentKey(some.GetNamespace(), some.GetName()))
}

// childChanged queues the parents that own an object of the i-th type of children, or that may adopt it.
func (c *Controller) childChanged(i int, before, after *objectcache.RawObject) {
	if after != nil && after.ControllerUID() == "" {
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

// parentOf returns the parent that is the controller owner of an object, whatever the version of its kind. For a deleted object it may also
// be another parent of the same name, which the child was in the way of.
func (c *Controller) parentOf(child *objectcache.RawObject, deleted bool) (Key, bool) {
	owner, found := child.Controller()
	if !found || owner.Kind != c.spec.parent.Kind {
		return Key{}, false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil || version.Group != c.spec.parent.Group {
		return Key{}, false
	}
	namespace := ""
	if c.spec.parent.Namespaced {
		namespace = child.GetNamespace()
	}
	parent := c.parents.Get(namespace, owner.Name)
	if parent == nil || parent.GetUID() != owner.UID && !deleted || !c.spec.isParent(parent) {
		return Key{}, false
	}
	return c.parentKey(namespace, owner.Name), true
}
