// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/objectcache"
)

// orphanIndex knows which orphans (objects without a controller owner) the selector of each parent matches. With it a sync need not look at
// all orphans, nor a change of an orphan at all parents.
type orphanIndex struct {
	selectors objectcache.SelectorIndex[Key]

	mu sync.Mutex
	// matching are objects that have matched. They may have changed since, or be deleted.
	matching map[Key]map[location]struct{}
}

func newOrphanIndex() *orphanIndex {
	return &orphanIndex{matching: map[Key]map[location]struct{}{}}
}

// setSelector sets the selector of a parent. It is matched with what is observed from now on.
func (x *orphanIndex) setSelector(parent Key, selector labels.Selector) {
	x.mu.Lock()
	delete(x.matching, parent)
	x.mu.Unlock()
	x.selectors.Set(parent, parent.Namespace, selector)
}

// observe adds an orphan, and returns the parents that may adopt it.
func (x *orphanIndex) observe(at location, o *objectcache.RawObject) []Key {
	parents := x.selectors.AppendMatches(nil, o)
	for _, parent := range parents {
		x.add(parent, at)
	}
	return parents
}

func (x *orphanIndex) add(parent Key, at location) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.matching[parent] == nil {
		x.matching[parent] = map[location]struct{}{}
	}
	x.matching[parent][at] = struct{}{}
}

// list returns the orphans of one type that the parent may adopt, as get returns them now. The others are forgotten.
func (x *orphanIndex) list(parent Key, child int, get func(namespace, name string) *objectcache.RawObject) (found []*objectcache.RawObject) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for at := range x.matching[parent] {
		if at.child != child {
			continue
		}
		if o := get(at.namespace, at.name); o != nil && o.ControllerUID() == "" {
			found = append(found, o)
			continue
		}
		delete(x.matching[parent], at)
	}
	return found
}

func (x *orphanIndex) forget(parent Key) {
	x.selectors.Delete(parent)
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.matching, parent)
}
