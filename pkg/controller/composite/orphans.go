// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/objectcache"
)

// orphans tell which ownerless objects the selector of each parent matches, so that neither a sync has to look at all of them, nor
// a change of one at all parents.
type orphans struct {
	index objectcache.SelectorIndex[key]

	mu sync.Mutex
	// matching are objects that have matched. They may have changed since, or be gone.
	matching map[key]map[orphan]struct{}
}

// orphan is an object that no controller owns.
type orphan struct {
	child           int // index of its type in rules.children
	namespace, name string
}

func newOrphans() *orphans { return &orphans{matching: map[key]map[orphan]struct{}{}} }

// select makes the selector that of the parent. What is observed from now on is matched with it.
func (x *orphans) selects(parent key, selector labels.Selector) {
	x.mu.Lock()
	delete(x.matching, parent)
	x.mu.Unlock()
	x.index.Set(parent, parent.namespace, selector)
}

// observed takes in an ownerless object, and returns the parents that may adopt it.
func (x *orphans) observed(name orphan, o *objectcache.RawObject) []key {
	parents := x.index.AppendMatches(nil, o)
	for _, parent := range parents {
		x.add(parent, name)
	}
	return parents
}

func (x *orphans) add(parent key, name orphan) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.matching[parent] == nil {
		x.matching[parent] = map[orphan]struct{}{}
	}
	x.matching[parent][name] = struct{}{}
}

// of returns those of one type that may be adopted by the parent, as find has them now. The others are forgotten.
func (x *orphans) of(parent key, child int, find func(namespace, name string) *objectcache.RawObject) (found []*objectcache.RawObject) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name := range x.matching[parent] {
		if name.child != child {
			continue
		}
		if o := find(name.namespace, name.name); o != nil && o.ControllerUID() == "" {
			found = append(found, o)
			continue
		}
		delete(x.matching[parent], name)
	}
	return found
}

func (x *orphans) forget(parent key) {
	x.index.Delete(parent)
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.matching, parent)
}
