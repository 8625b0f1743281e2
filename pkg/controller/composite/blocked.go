// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"maps"
	"slices"
	"sync"
)

// blocked tells which parents desire a child of a name that an object has which is not theirs, so that they are synced as soon as it goes.
type blocked struct {
	mu      sync.Mutex
	parents map[place]map[key]struct{}
}

// place is where an object of a type stands.
type place struct {
	child           int // index of its type in rules.children
	namespace, name string
}

func newBlocked() *blocked { return &blocked{parents: map[place]map[key]struct{}{}} }

// add a parent whose child cannot be created there.
func (b *blocked) add(at place, parent key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.parents[at] == nil {
		b.parents[at] = map[key]struct{}{}
	}
	b.parents[at][parent] = struct{}{}
}

// freed returns the parents that were blocked by the object there, which has gone.
func (b *blocked) freed(at place) []key {
	b.mu.Lock()
	defer b.mu.Unlock()
	parents := slices.Collect(maps.Keys(b.parents[at]))
	delete(b.parents, at)
	return parents
}

// forget a parent.
func (b *blocked) forget(parent key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, parents := range b.parents {
		if delete(parents, parent); len(parents) == 0 {
			delete(b.parents, at)
		}
	}
}
