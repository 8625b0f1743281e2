// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// SelectorIndex is the inverse of a label selector: it finds the keys whose selectors match an object, in a time that grows with
// their number, not with the number of all keys. The zero value is empty. It may be used from everywhere at a time.
//
// Each selector is filed under one label and its values that it demands: that with the fewest others. Only selectors that demand no
// value of any label are tried one after another.
type SelectorIndex[K comparable] struct {
	mu    sync.RWMutex
	filed map[K]*filedSelector[K]
	// places are the files: by namespace, label and value, or by the namespace alone.
	places map[place][]*filedSelector[K]
}

type filedSelector[K comparable] struct {
	key      K
	selector labels.Selector
	places   []place
}

// place is a file of the index; label is "" for the selectors without one. namespace is "" for those that match everywhere.
type place struct{ namespace, label, value string }

// maxValues is the number of values of a label a selector may allow and still be filed under each of them.
const maxValues = 16

// Set makes the selector that of the key, in a namespace or, if that is "", everywhere. It takes the place of an earlier one.
func (x *SelectorIndex[K]) Set(key K, namespace string, selector labels.Selector) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(key)
	requirements, selectable := selector.Requirements()
	if !selectable {
		return // it matches nothing
	}
	if x.filed == nil {
		x.filed, x.places = map[K]*filedSelector[K]{}, map[place][]*filedSelector[K]{}
	}
	f := &filedSelector[K]{key: key, selector: selector, places: x.bestPlaces(namespace, requirements)}
	x.filed[key] = f
	for _, at := range f.places {
		x.places[at] = append(x.places[at], f)
	}
}

// bestPlaces chooses where to file a selector.
func (x *SelectorIndex[K]) bestPlaces(namespace string, requirements labels.Requirements) []place {
	best, fewest := []place{{namespace: namespace}}, -1
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
		default:
			continue
		}
		values := r.ValuesUnsorted()
		if len(values) > maxValues {
			continue
		}
		places, others := make([]place, 0, len(values)), 0
		for _, value := range values {
			at := place{namespace, r.Key(), value}
			places = append(places, at)
			others += len(x.places[at])
		}
		if fewest < 0 || others < fewest {
			best, fewest = places, others
		}
	}
	return best
}

// Len returns the number of keys whose selectors can match something.
func (x *SelectorIndex[K]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.filed)
}

// Delete forgets the key.
func (x *SelectorIndex[K]) Delete(key K) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(key)
}

func (x *SelectorIndex[K]) remove(key K) {
	f := x.filed[key]
	if f == nil {
		return
	}
	delete(x.filed, key)
	for _, at := range f.places {
		file := x.places[at]
		if i := slices.Index(file, f); i >= 0 {
			file = slices.Delete(file, i, i+1)
		}
		if len(file) == 0 {
			delete(x.places, at)
		} else {
			x.places[at] = file
		}
	}
}

// AppendMatches appends to keys those whose selectors match the object, each once, in no order. It allocates nothing else.
func (x *SelectorIndex[K]) AppendMatches(keys []K, o *RawObject) []K {
	x.mu.RLock()
	defer x.mu.RUnlock()
	namespace := o.GetNamespace()
	keys = x.appendMatches(keys, o, namespace)
	if namespace != "" {
		keys = x.appendMatches(keys, o, "")
	}
	return keys
}

func (x *SelectorIndex[K]) appendMatches(keys []K, o *RawObject, namespace string) []K {
	keys = appendMatching(keys, x.places[place{namespace: namespace}], o)
	for _, label := range o.labels {
		keys = appendMatching(keys, x.places[place{namespace, o.string(label.key), o.string(label.value)}], o)
	}
	return keys
}

func appendMatching[K comparable](keys []K, file []*filedSelector[K], o *RawObject) []K {
	for _, f := range file {
		if f.selector.Matches(o.Labels()) {
			keys = append(keys, f.key)
		}
	}
	return keys
}
