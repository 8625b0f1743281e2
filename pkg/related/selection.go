// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"cmp"
	"hash/maphash"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/objectcache"
)

// Reader reads objects of any resource, those that rules need: a [Watcher] is one. What it returns need not be sorted.
type Reader interface {
	// Get returns nil for an object that does not exist. The namespace of cluster-scoped objects is "".
	Get(resource schema.GroupVersionResource, namespace, name string) *objectcache.RawObject
	// List returns the objects of a namespace, or of all if that is "", that have the name, or any if that is "", and that the selector
	// matches; nil matches all.
	List(resource schema.GroupVersionResource, namespace, name string, selector labels.Selector) []*objectcache.RawObject
}

// Selection is what the rules of a parent select at one time.
type Selection struct {
	// Groups have an entry for each type of a rule, possibly empty. Their objects are sorted, each once.
	Groups []hook.Group
	// Sum is of the names and versions of all objects. Sums of one process are equal for equal selections.
	Sum uint64
}

// sumSeed makes sums differ between processes.
var sumSeed = maphash.MakeSeed()

// Select returns the objects that the rules select now.
func (r *Rules) Select(from Reader) Selection {
	selection := Selection{Groups: make([]hook.Group, 0, len(r.groups))}
	var sum maphash.Hash
	sum.SetSeed(sumSeed)
	for _, g := range r.groups {
		objects := r.selectGroup(from, g)
		shown := hook.Group{APIVersion: g.GroupVersion().String(), Kind: g.Kind, Objects: make([]hook.Object, len(objects))}
		addTo(&sum, shown.APIVersion, shown.Kind)
		for i, o := range objects {
			shown.Objects[i] = hook.Object{Namespace: o.GetNamespace(), Name: o.GetName(), JSON: o.JSON()}
			addTo(&sum, o.GetNamespace(), o.GetName(), string(o.GetUID()), o.GetResourceVersion())
		}
		addTo(&sum, "")
		selection.Groups = append(selection.Groups, shown)
	}
	selection.Sum = sum.Sum64()
	return selection
}

// addTo adds texts so that no other texts have the same sum. None has a zero byte.
func addTo(sum *maphash.Hash, texts ...string) {
	for _, text := range texts {
		_, _ = sum.WriteString(text) // never fails
		_ = sum.WriteByte(0)
	}
}

// selectGroup returns the objects of one type, sorted, each once.
func (r *Rules) selectGroup(from Reader, kind schema.GroupVersionKind) []*objectcache.RawObject {
	var found []*objectcache.RawObject
	for i := range r.rules {
		if r.rules[i].kind() == kind {
			found = r.rules[i].appendSelected(found, from)
		}
	}
	byName := func(a, b *objectcache.RawObject) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	}
	slices.SortFunc(found, byName)
	return slices.CompactFunc(found, func(a, b *objectcache.RawObject) bool { return byName(a, b) == 0 })
}

// appendSelected appends what the rule selects.
func (r *Rule) appendSelected(found []*objectcache.RawObject, from Reader) []*objectcache.RawObject {
	switch {
	case r.byName && (r.namespace != "" || !r.served.Namespaced):
		for _, name := range r.names {
			if o := from.Get(r.resource, r.namespace, name); o != nil {
				found = append(found, o)
			}
		}
	case r.byName:
		for _, name := range r.names {
			found = append(found, from.List(r.resource, "", name, nil)...)
		}
	case r.byNamespaces && r.namespace != "":
		if in := from.Get(namespacesResource, "", r.namespace); in != nil && r.namespaces.Matches(in.Labels()) {
			found = append(found, from.List(r.resource, r.namespace, "", r.selector)...)
		}
	case r.byNamespaces:
		for _, in := range from.List(namespacesResource, "", "", r.namespaces) {
			found = append(found, from.List(r.resource, in.GetName(), "", r.selector)...)
		}
	default:
		found = append(found, from.List(r.resource, r.namespace, "", r.selector)...)
	}
	return found
}
