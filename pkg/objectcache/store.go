// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// objectName identifies an object of a resource.
type objectName struct{ namespace, name string }

func nameOf(o *RawObject) objectName { return objectName{o.GetNamespace(), o.GetName()} }

// store holds the objects of one resource: by namespace and name, those with a controller by its UID, and the ownerless ones by
// namespace, and by the labels that users have listed by. Its user locks it.
type store struct {
	namespaces map[string]*namespaceStore
	owned      map[types.UID][]*RawObject
	// labels has the labels that are indexed.
	labels map[string]labelIndex
}

// namespaceStore holds the objects of one namespace; those of a cluster-scoped resource are all in "".
type namespaceStore struct {
	objects   map[string]entry
	ownerless []*RawObject
}

// entry has an object and its position in its bucket: each object is either in that of its owner or among the ownerless.
type entry struct {
	object *RawObject
	slot   int
}

func newStore() *store {
	return &store{namespaces: map[string]*namespaceStore{}, owned: map[types.UID][]*RawObject{}}
}

func (s *store) get(name objectName) *RawObject {
	if in := s.namespaces[name.namespace]; in != nil {
		return in.objects[name.name].object
	}
	return nil
}

// known is get for names that are still bytes.
func (s *store) known(namespace, name []byte) *RawObject {
	if in := s.namespaces[string(namespace)]; in != nil {
		return in.objects[string(name)].object
	}
	return nil
}

// emptied returns an empty store that indexes the same labels.
func (s *store) emptied() *store {
	empty := newStore()
	for label := range s.labels {
		empty.index([]string{label})
	}
	return empty
}

// put adds the object, in place of the one of its name.
func (s *store) put(o *RawObject) {
	// The map would else keep the old one's name, and thereby its whole text.
	s.remove(nameOf(o))
	in := s.namespaces[o.GetNamespace()]
	if in == nil {
		in = &namespaceStore{objects: map[string]entry{}}
		s.namespaces[clone(o.GetNamespace())] = in
	}
	var slot int
	if owner := o.ControllerUID(); owner != "" {
		bucket, exists := s.owned[owner]
		slot = len(bucket)
		if !exists {
			owner = clone(owner)
		}
		s.owned[owner] = append(bucket, o)
	} else {
		slot = len(in.ownerless)
		in.ownerless = append(in.ownerless, o)
	}
	in.objects[o.GetName()] = entry{o, slot}
	for label, x := range s.labels {
		if value, labelled := o.Labels().Lookup(label); labelled {
			x.put(value, o)
		}
	}
}

// remove forgets the object of that name, if there is one.
func (s *store) remove(name objectName) {
	in := s.namespaces[name.namespace]
	if in == nil {
		return
	}
	old, exists := in.objects[name.name]
	if !exists {
		return
	}
	delete(in.objects, name.name)
	for label, x := range s.labels {
		if value, labelled := old.object.Labels().Lookup(label); labelled {
			x.remove(value, old.object)
		}
	}
	if owner := old.object.ControllerUID(); owner != "" {
		if bucket := s.without(s.owned[owner], old.slot); len(bucket) > 0 {
			s.owned[owner] = bucket
		} else {
			delete(s.owned, owner)
		}
	} else {
		in.ownerless = s.without(in.ownerless, old.slot)
	}
	if len(in.objects) == 0 {
		delete(s.namespaces, name.namespace)
	}
}

// without takes an object out of a bucket: the last one moves to its place.
func (s *store) without(bucket []*RawObject, slot int) []*RawObject {
	last := len(bucket) - 1
	if moved := bucket[last]; slot != last {
		bucket[slot] = moved
		name := nameOf(moved)
		s.namespaces[name.namespace].objects[name.name] = entry{moved, slot}
	}
	bucket[last] = nil
	bucket = bucket[:last]
	if cap(bucket) > 64 && len(bucket) < cap(bucket)/4 {
		bucket = slices.Clone(bucket)
	}
	return bucket
}

// each calls visit for the objects of a namespace, or all if that is "".
func (s *store) each(namespace string, visit func(*RawObject)) {
	for in := range s.selected(namespace) {
		for _, e := range in.objects {
			visit(e.object)
		}
	}
}

// eachOwnerless does the same for objects without a controller.
func (s *store) eachOwnerless(namespace string, visit func(*RawObject)) {
	for in := range s.selected(namespace) {
		for _, o := range in.ownerless {
			visit(o)
		}
	}
}

// selected yields one namespace, or all if that is "": cluster-scoped objects are in "", and nothing else is.
func (s *store) selected(namespace string) iter.Seq[*namespaceStore] {
	return func(yield func(*namespaceStore) bool) {
		if namespace != "" {
			if in := s.namespaces[namespace]; in != nil {
				yield(in)
			}
			return
		}
		for _, in := range s.namespaces {
			if !yield(in) {
				return
			}
		}
	}
}
