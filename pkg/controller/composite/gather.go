// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"errors"
	"hash/maphash"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/objectcache/objectwriter"
)

// children are the objects of all types that are the parent's.
type children struct {
	groups []hook.Group
	byKey  map[childKey]object
	// observed is a hash of the versions of parent and children.
	observed uint64
}

// gather finds the children, adopts and releases. Where the parent is not what it was any more, it is nil afterwards.
func (s *parentSync) gather(ctx context.Context) (*children, error) {
	found := &children{byKey: map[childKey]object{}}
	var adopting []adoption
	var errs []error
	claimed := make([]claims, len(s.h.rules.children))
	for i, of := range s.h.rules.children {
		handle := s.h.children[i]
		claimed[i] = claim(s.parent, s.state.selector,
			asObjects(handle.OwnedBy(s.parent.GetUID(), s.key.namespace)), asObjects(s.h.orphans.of(s.key, i, handle.Get)))
		for _, o := range claimed[i].release {
			errs = append(errs, s.releaseChild(ctx, i, of.resource, o))
		}
		for _, o := range claimed[i].adopt {
			adopting = append(adopting, adoption{i, of.resource, o})
		}
	}
	if len(adopting) > 0 {
		adopted, err := s.adopt(ctx, adopting)
		if err != nil || s.parent == nil {
			return nil, errors.Join(append(errs, err)...)
		}
		for i, list := range adopted {
			claimed[i].children = append(claimed[i].children, list...)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var observed maphash.Hash
	observed.SetSeed(seed)
	observed.WriteString(s.parent.GetResourceVersion())
	for i, of := range s.h.rules.children {
		group := hook.Group{APIVersion: of.apiVersion(), Kind: of.Kind, Objects: make([]hook.Object, len(claimed[i].children))}
		for j, o := range claimed[i].children {
			group.Objects[j] = hook.Object{Namespace: o.GetNamespace(), Name: o.GetName(), JSON: o.JSON()}
			found.byKey[of.key(o.GetNamespace(), o.GetName())] = o
			observed.WriteString(string(o.GetUID()))
			observed.WriteString(o.GetResourceVersion())
		}
		found.groups = append(found.groups, group)
	}
	found.observed = observed.Sum64()
	return found, nil
}

func asObjects(list []*objectcache.RawObject) []object {
	objects := make([]object, len(list))
	for i, o := range list {
		objects[i] = o
	}
	return objects
}

// at names an object for a request.
func (r resource) at(namespace, name string) objectwriter.Name {
	return objectwriter.Name{Resource: r.GroupVersionResource, Namespace: namespace, Name: name}
}
