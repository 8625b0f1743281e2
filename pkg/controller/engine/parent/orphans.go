// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/objectcache"
)

// orphanIndex knows which orphans (objects without a controller owner) the selector of each parent matches. With it a sync need not look at
// all orphans, nor a change of an orphan at all parents.
type orphanIndex struct {
	selectors objectcache.SelectorIndex[Key]

	mu sync.Mutex
	// matching are objects that have matched. They may have changed since, or be deleted.
	matching map[Key]map[location]struct{}
	// unmatched are objects with the label of a generated selector that no parent has, by the UID in it: the parent may be selected again.
	unmatched map[types.UID]map[location]struct{}
}

func newOrphanIndex() *orphanIndex {
	return &orphanIndex{matching: map[Key]map[location]struct{}{}, unmatched: map[types.UID]map[location]struct{}{}}
}

// setSelector sets the selector of a parent. It is matched with what is observed from now on.
func (x *orphanIndex) setSelector(parent Key, selector labels.Selector) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.matching, parent)
	x.selectors.Set(parent, parent.Namespace, selector)
}

// setUID sets the generated selector of a parent. It is also matched with what was observed before.
func (x *orphanIndex) setUID(parent Key, uid types.UID, selector labels.Selector) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.selectors.Set(parent, parent.Namespace, selector)
	if x.matching[parent] = x.unmatched[uid]; x.matching[parent] == nil {
		delete(x.matching, parent)
	}
	delete(x.unmatched, uid)
}

// observe adds an orphan, and returns the parents that may adopt it.
func (x *orphanIndex) observe(at location, o *objectcache.RawObject) []Key {
	x.mu.Lock()
	defer x.mu.Unlock()
	parents := x.selectors.AppendMatches(nil, o)
	for _, parent := range parents {
		addTo(x.matching, parent, at)
	}
	if uid := o.Labels().Get(labelControllerUID); len(parents) == 0 && uid != "" {
		addTo(x.unmatched, types.UID(uid), at)
	}
	return parents
}

// drop forgets an orphan as it was before it changed or was deleted, and returns the parents that it matched: they may have reported that they do not adopt it.
func (x *orphanIndex) drop(at location, o *objectcache.RawObject) []Key {
	x.mu.Lock()
	defer x.mu.Unlock()
	uid := types.UID(o.Labels().Get(labelControllerUID))
	if delete(x.unmatched[uid], at); len(x.unmatched[uid]) == 0 {
		delete(x.unmatched, uid)
	}
	return x.selectors.AppendMatches(nil, o)
}

func (x *orphanIndex) add(parent Key, at location) {
	x.mu.Lock()
	defer x.mu.Unlock()
	addTo(x.matching, parent, at)
}

func addTo[K comparable](index map[K]map[location]struct{}, key K, at location) {
	if index[key] == nil {
		index[key] = map[location]struct{}{}
	}
	index[key][at] = struct{}{}
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

// forget forgets a parent. The UID is that of its generated selector, "" if it has another one.
func (x *orphanIndex) forget(parent Key, uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.selectors.Delete(parent)
	if matching := x.matching[parent]; uid != "" && matching != nil {
		x.unmatched[uid] = matching
	}
	delete(x.matching, parent)
}
