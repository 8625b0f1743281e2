// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"maps"
	"slices"
	"sync"
)

// blockedParents are the parents that desire a child whose name a foreign object has. They are synced as soon as that object is deleted.
type blockedParents struct {
	mu sync.Mutex
	by map[location]map[Key]struct{}
}

// location is the type and the name of an object.
type location struct {
	child           int // index of the type in Spec.children
	namespace, name string
}

func newBlockedParents() *blockedParents {
	return &blockedParents{by: map[location]map[Key]struct{}{}}
}

// block adds a parent whose child cannot be created there.
func (b *blockedParents) block(at location, parent Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by[at] == nil {
		b.by[at] = map[Key]struct{}{}
	}
	b.by[at][parent] = struct{}{}
}

// unblock returns the parents that a deleted object has blocked.
func (b *blockedParents) unblock(at location) []Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	parents := slices.Collect(maps.Keys(b.by[at]))
	delete(b.by, at)
	return parents
}

func (b *blockedParents) forget(parent Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, parents := range b.by {
		if delete(parents, parent); len(parents) == 0 {
			delete(b.by, at)
		}
	}
}
