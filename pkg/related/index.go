// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/objectcache"
)

// Index is the inverse of rules: it finds the keys whose rules select an object, in a time that grows with their number, not with that of all
// keys. Rules that select the same are held once, for all keys that have them. It may be used concurrently.
type Index[K comparable] struct {
	mu sync.RWMutex
	// keys are the entries of each key, and entries those of each rule, by what the rule selects.
	keys    map[K][]*entry[K]
	entries map[string]*entry[K]
	// named are the entries that select by name, and others all others, by resource.
	named  map[place][]*entry[K]
	others map[schema.GroupVersionResource]*objectcache.SelectorIndex[*entry[K]]
	// selectors finds the namespaceSelectors that match a Namespace, and namespaces has them by their text.
	selectors  objectcache.SelectorIndex[*namespaceSelector[K]]
	namespaces map[string]*namespaceSelector[K]
	created    uint64
}

// entry is one rule with the keys that have it.
type entry[K comparable] struct {
	rule *Rule
	keys map[K]struct{}
	// number is unique, and orders entries.
	number uint64
}

// place is where objects of one name are. namespace is empty for all namespaces.
type place struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// namespaceSelector has the entries with one namespaceSelector.
type namespaceSelector[K comparable] struct {
	entries map[*entry[K]]struct{}
	others  map[schema.GroupVersionResource]*objectcache.SelectorIndex[*entry[K]]
}

// Change is a change of an object.
type Change struct {
	Resource schema.GroupVersionResource
	// Before is nil for an object that is new, After for one that is gone.
	Before, After *objectcache.RawObject
	// Namespace is that of the object as it is now, nil if it is unknown or the object has none.
	Namespace *objectcache.RawObject
}

// Set makes the rules those of the key, in place of earlier ones.
func (x *Index[K]) Set(key K, rules *Rules) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.entries == nil {
		x.keys, x.entries, x.named = map[K][]*entry[K]{}, map[string]*entry[K]{}, map[place][]*entry[K]{}
		x.others, x.namespaces = map[schema.GroupVersionResource]*objectcache.SelectorIndex[*entry[K]]{}, map[string]*namespaceSelector[K]{}
	}
	entries := make([]*entry[K], 0, len(rules.rules))
	kept := make(map[*entry[K]]struct{}, len(rules.rules))
	for i := range rules.rules {
		e := x.entry(&rules.rules[i])
		e.keys[key] = struct{}{}
		kept[e] = struct{}{}
		entries = append(entries, e)
	}
	before := x.keys[key]
	x.keys[key] = entries
	for _, e := range before {
		if _, still := kept[e]; !still {
			x.remove(e, key)
		}
	}
}

// Delete forgets the key.
func (x *Index[K]) Delete(key K) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.keys[key] {
		x.remove(e, key)
	}
	delete(x.keys, key)
}

// Len returns the number of keys, and of rules that differ.
func (x *Index[K]) Len() (keys, rules int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.keys), len(x.entries)
}

// needsNamespaces reports whether a rule has a namespaceSelector.
func (x *Index[K]) needsNamespaces() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.namespaces) > 0
}

// AppendChanged appends to keys those whose rules select the object before or after the change, each once, in no order.
func (x *Index[K]) AppendChanged(keys []K, change Change) []K {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var selectors []*namespaceSelector[K]
	if change.Namespace != nil && len(x.namespaces) > 0 {
		selectors = x.selectors.AppendMatches(nil, change.Namespace)
	}
	found := x.appendEntries(nil, change.Resource, change.Before, selectors)
	found = x.appendEntries(found, change.Resource, change.After, selectors)
	return appendKeys(keys, found)
}

// AppendRelabelled appends to keys those whose rules have a namespaceSelector that a Namespace matches either before or after a change, but
// not both, each once, in no order. before is nil for a Namespace that is new, after for one that is gone.
func (x *Index[K]) AppendRelabelled(keys []K, before, after *objectcache.RawObject) []K {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.namespaces) == 0 {
		return keys
	}
	var was, is []*namespaceSelector[K]
	var name string
	if before != nil {
		was, name = x.selectors.AppendMatches(nil, before), before.GetName()
	}
	if after != nil {
		is, name = x.selectors.AppendMatches(nil, after), after.GetName()
	}
	stays := make(map[*namespaceSelector[K]]bool, len(was))
	for _, s := range was {
		stays[s] = false
	}
	var found []*entry[K]
	for _, s := range is {
		if _, both := stays[s]; both {
			stays[s] = true
		} else {
			found = s.appendEntries(found, name)
		}
	}
	for s, both := range stays {
		if !both {
			found = s.appendEntries(found, name)
		}
	}
	return appendKeys(keys, found)
}

// appendEntries appends those that may select objects of the namespace.
func (s *namespaceSelector[K]) appendEntries(found []*entry[K], namespace string) []*entry[K] {
	for e := range s.entries {
		if e.rule.namespace == "" || e.rule.namespace == namespace {
			found = append(found, e)
		}
	}
	return found
}

// appendEntries appends the entries that select the object, which may be nil. selectors are those that its namespace matches.
func (x *Index[K]) appendEntries(found []*entry[K], resource schema.GroupVersionResource, o *objectcache.RawObject,
	selectors []*namespaceSelector[K],
) []*entry[K] {
	if o == nil {
		return found
	}
	namespace, name := o.GetNamespace(), o.GetName()
	found = append(found, x.named[place{resource, namespace, name}]...)
	if namespace != "" {
		found = append(found, x.named[place{resource, "", name}]...)
	}
	if others := x.others[resource]; others != nil {
		found = others.AppendMatches(found, o)
	}
	for _, s := range selectors {
		if others := s.others[resource]; others != nil {
			found = others.AppendMatches(found, o)
		}
	}
	return found
}

// appendKeys appends the keys of the entries, each once.
func appendKeys[K comparable](keys []K, entries []*entry[K]) []K {
	if len(entries) > 1 {
		slices.SortFunc(entries, func(a, b *entry[K]) int { return cmp.Compare(a.number, b.number) })
		entries = slices.Compact(entries)
	}
	if len(entries) == 1 {
		for key := range entries[0].keys {
			keys = append(keys, key)
		}
		return keys
	}
	seen := map[K]struct{}{}
	for _, e := range entries {
		for key := range e.keys {
			if _, twice := seen[key]; !twice {
				seen[key] = struct{}{}
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// The functions below must be called with x.mu held.

// entry returns that of the rule, which is filed if it is new.
func (x *Index[K]) entry(rule *Rule) *entry[K] {
	if e := x.entries[rule.id]; e != nil {
		return e
	}
	x.created++
	e := &entry[K]{rule: rule, keys: map[K]struct{}{}, number: x.created}
	x.entries[rule.id] = e
	switch {
	case rule.byName:
		for _, name := range rule.names {
			at := place{rule.resource, rule.namespace, name}
			x.named[at] = append(x.named[at], e)
		}
	case rule.byNamespaces:
		text := rule.namespaces.String()
		s := x.namespaces[text]
		if s == nil {
			s = &namespaceSelector[K]{entries: map[*entry[K]]struct{}{}, others: map[schema.GroupVersionResource]*objectcache.SelectorIndex[*entry[K]]{}}
			x.namespaces[text] = s
			x.selectors.Set(s, "", rule.namespaces)
		}
		s.entries[e] = struct{}{}
		file(s.others, e)
	default:
		file(x.others, e)
	}
	return e
}

func file[K comparable](others map[schema.GroupVersionResource]*objectcache.SelectorIndex[*entry[K]], e *entry[K]) {
	selector := e.rule.selector
	if selector == nil {
		selector = labels.Everything()
	}
	if others[e.rule.resource] == nil {
		others[e.rule.resource] = &objectcache.SelectorIndex[*entry[K]]{}
	}
	others[e.rule.resource].Set(e, e.rule.namespace, selector)
}

func unfile[K comparable](others map[schema.GroupVersionResource]*objectcache.SelectorIndex[*entry[K]], e *entry[K]) {
	filed := others[e.rule.resource]
	filed.Delete(e)
	if filed.Len() == 0 {
		delete(others, e.rule.resource)
	}
}

// remove takes the key from an entry, and forgets the entry with its last key.
func (x *Index[K]) remove(e *entry[K], key K) {
	delete(e.keys, key)
	if len(e.keys) > 0 {
		return
	}
	delete(x.entries, e.rule.id)
	switch rule := e.rule; {
	case rule.byName:
		for _, name := range rule.names {
			at := place{rule.resource, rule.namespace, name}
			if rest := slices.DeleteFunc(x.named[at], func(other *entry[K]) bool { return other == e }); len(rest) > 0 {
				x.named[at] = rest
			} else {
				delete(x.named, at)
			}
		}
	case rule.byNamespaces:
		text := rule.namespaces.String()
		s := x.namespaces[text]
		delete(s.entries, e)
		unfile(s.others, e)
		if len(s.entries) == 0 {
			delete(x.namespaces, text)
			x.selectors.Delete(s)
		}
	default:
		unfile(x.others, e)
	}
}
