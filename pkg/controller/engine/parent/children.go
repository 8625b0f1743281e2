// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"cmp"
	"slices"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/objectcache"
)

// children are the objects of all types that the parent owns.
type children struct {
	// groups are they as hooks see them, sorted by namespace and name.
	groups []hook.Group
	byKey  map[childKey]object
	// sum is a hash of their versions.
	sum uint64
	// owned are they as the cache has listed them. It is nil if the cache has listed others, too: then no update is possible.
	owned [][]*objectcache.RawObject
}

// grouped returns the claimed children of all types.
func (spec *Spec) grouped(claimed []claims) *children {
	size := 0
	for i := range claimed {
		size += len(claimed[i].children)
	}
	c := &children{byKey: make(map[childKey]object, size)}
	for i, of := range spec.children {
		group := hook.Group{APIVersion: of.apiVersion(), Kind: of.Kind, Objects: make([]hook.Object, len(claimed[i].children))}
		for j, o := range claimed[i].children {
			group.Objects[j] = hook.Object{Namespace: o.GetNamespace(), Name: o.GetName(), JSON: o.JSON()}
			c.byKey[of.key(o.GetNamespace(), o.GetName())] = o
			c.sum ^= versionHash(o)
		}
		c.groups = append(c.groups, group)
	}
	return c
}

// versions returns a hash of the versions of parent and children.
func (c *children) versions(parent object) uint64 { return c.sum ^ versionHash(parent) }

// setListed makes an update possible, if the children are all that is listed.
func (c *children) setListed(all []candidates) {
	owned := make([][]*objectcache.RawObject, len(all))
	for i, of := range all {
		if len(of.owned) != len(c.groups[i].Objects) || len(of.orphans) > 0 {
			return
		}
		owned[i] = of.owned
	}
	c.owned = owned
}

// update brings the children up to date with what is listed now. It returns false if others are listed: then the children must not be used any more.
func (c *children) update(all []candidates, types []childType, isChild func(object) bool) bool {
	if c.owned == nil {
		return false
	}
	for i, of := range all {
		if len(of.owned) != len(c.owned[i]) || len(of.orphans) > 0 {
			return false
		}
		for j, o := range of.owned {
			if o == c.owned[i][j] {
				continue
			}
			key := types[i].key(o.GetNamespace(), o.GetName())
			switch before, found := c.byKey[key]; {
			case !found:
				return false
			case before == object(o): // it is at another place of the list
			case !isChild(o):
				return false
			default:
				c.replace(i, key, o)
			}
		}
		c.owned[i] = of.owned
	}
	return true
}

// replace replaces a child of a type by what has its name now.
func (c *children) replace(of int, key childKey, o object) {
	c.sum ^= versionHash(c.byKey[key]) ^ versionHash(o)
	c.byKey[key] = o
	objects := c.groups[of].Objects
	at, _ := slices.BinarySearchFunc(objects, key, func(o hook.Object, key childKey) int {
		return cmp.Or(cmp.Compare(o.Namespace, key.namespace), cmp.Compare(o.Name, key.name))
	})
	objects[at].JSON = o.JSON()
}
