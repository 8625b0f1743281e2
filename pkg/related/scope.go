// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package related

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/objectcache"
)

// extent identifies which objects of a resource a watch has. Empty parts mean all.
type extent struct {
	resource        schema.GroupVersionResource
	namespace, name string
	// selector is its text.
	selector string
}

// scope is an extent with its selector, nil for all.
type scope struct {
	extent
	labels labels.Selector
}

// String names the extent in errors and logs.
func (e *extent) String() string {
	text := e.resource.GroupResource().String()
	if e.namespace != "" || e.name != "" || e.selector != "" {
		text += " " + strings.TrimSuffix(e.namespace+"/"+e.name+" "+e.selector, " ")
	}
	return text
}

// covers reports whether all that is in the other extent is in this one.
func (e *extent) covers(other *extent) bool {
	return e.resource == other.resource &&
		(e.namespace == "" || e.namespace == other.namespace) &&
		(e.name == "" || e.name == other.name) &&
		(e.selector == "" || e.selector == other.selector)
}

// wider yields the other extents that have all of this one: each part is that of this one, or empty.
func (e *extent) wider() iter.Seq[extent] {
	return func(yield func(extent) bool) {
		for without := 1; without < 8; without++ {
			other := *e
			if without&1 != 0 {
				other.selector = ""
			}
			if without&2 != 0 {
				other.name = ""
			}
			if without&4 != 0 {
				other.namespace = ""
			}
			if other != *e && !yield(other) {
				return
			}
		}
	}
}

// request is what the watch of a scope is acquired with.
func (s *scope) request() objectcache.Request {
	return objectcache.Request{Resource: s.resource, Namespace: s.namespace, Name: s.name, Selector: s.labels}
}

func compareExtents(a, b extent) int {
	return cmp.Or(compareResources(a.resource, b.resource), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name),
		cmp.Compare(a.selector, b.selector))
}

// scopesOf returns scopes with all that the rules select, sorted, each once.
func scopesOf(rules []Rule, engineNamespace string) []scope {
	var scopes []scope
	for i := range rules {
		rule := &rules[i]
		at := scope{extent: extent{resource: rule.resource, namespace: rule.namespace}}
		if rule.byNamespaces {
			scopes = append(scopes, scope{extent: extent{resource: namespacesResource, name: engineNamespace}})
		}
		if rule.byName {
			for _, name := range rule.names {
				at.name = name
				scopes = append(scopes, at)
			}
			continue
		}
		if rule.selector != nil {
			at.selector, at.labels = rule.selector.String(), rule.selector
		}
		scopes = append(scopes, at)
	}
	slices.SortFunc(scopes, func(a, b scope) int { return compareExtents(a.extent, b.extent) })
	return slices.CompactFunc(scopes, func(a, b scope) bool { return a.extent == b.extent })
}
