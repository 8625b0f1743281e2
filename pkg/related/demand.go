// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package related

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Watches are as narrow as the rules, up to these numbers: above them, one watch that has all of them takes their place, if the API server allows
// it. It remains until half of them are left, so that rules that come and go do not start and end watches each time.
const (
	// maxOfNamespace is the number of watches of a resource in one namespace, or without a namespace.
	maxOfNamespace = 10
	// maxOfResource is the number of all watches of a resource.
	maxOfResource = 100
)

// demand decides which watches have all scopes that rules need, by resource.
type demand map[schema.GroupVersionResource]*resourceDemand

// resourceDemand has the scopes of one resource.
type resourceDemand struct {
	union      // of all scopes
	namespaces map[string]*namespaceDemand
	// watches is how many there are unless all are merged.
	watches int
	merged  bool
}

// namespaceDemand has the scopes of one namespace, or those without a namespace.
type namespaceDemand struct {
	scopes map[extent]*demanded
	merged bool
}

// demanded is a scope with the number of rules that need it.
type demanded struct {
	scope
	rules int
}

// watches is how many there are for the namespace.
func (n *namespaceDemand) watches() int {
	if n.merged {
		return 1
	}
	return len(n.scopes)
}

// add adds what a rule needs. It reports whether that was not needed before.
func (d demand) add(s *scope) bool {
	r := d[s.resource]
	if r == nil {
		r = &resourceDemand{namespaces: map[string]*namespaceDemand{}}
		d[s.resource] = r
	}
	n := r.namespaces[s.namespace]
	if n == nil {
		n = &namespaceDemand{scopes: map[extent]*demanded{}}
		r.namespaces[s.namespace] = n
	}
	if known := n.scopes[s.extent]; known != nil {
		known.rules++
		return false
	}
	before := n.watches()
	n.scopes[s.extent] = &demanded{*s, 1}
	r.count(s, 1)
	n.merged = merge(n.merged, len(n.scopes), maxOfNamespace)
	r.watches += n.watches() - before
	r.merged = merge(r.merged, r.watches, maxOfResource)
	return true
}

// remove removes what a rule needs no more. It reports whether no other rule needs it.
func (d demand) remove(s *scope) bool {
	r := d[s.resource]
	n := r.namespaces[s.namespace]
	known := n.scopes[s.extent]
	if known.rules--; known.rules > 0 {
		return false
	}
	before := n.watches()
	delete(n.scopes, s.extent)
	r.count(s, -1)
	n.merged = merge(n.merged, len(n.scopes), maxOfNamespace)
	r.watches += n.watches() - before
	r.merged = merge(r.merged, r.watches, maxOfResource)
	if len(n.scopes) == 0 {
		delete(r.namespaces, s.namespace)
	}
	if len(r.namespaces) == 0 {
		delete(d, s.resource)
	}
	return true
}

// merge decides whether one watch takes the place of several.
func merge(merged bool, watches, most int) bool {
	return watches > most || merged && watches > most/2
}

// wanted returns the narrowest watches of a resource that have all that rules need, sorted. Forbidden watches are wanted as well, because they may
// be allowed later, but they take no other's place: what they would have is wanted as if they were not there.
func (d demand) wanted(resource schema.GroupVersionResource, forbidden func(extent) bool) []scope {
	r := d[resource]
	if r == nil {
		return nil
	}
	wanted := make([]scope, 0, r.watches)
	if r.merged {
		all := r.all(resource)
		if wanted = append(wanted, all); !forbidden(all.extent) {
			return wanted
		}
	}
	for namespace, n := range r.namespaces {
		if n.merged {
			whole := scope{extent: extent{resource: resource, namespace: namespace}}
			if wanted = append(wanted, whole); !forbidden(whole.extent) {
				continue
			}
		}
		for _, one := range n.scopes {
			wanted = append(wanted, one.scope)
		}
	}
	slices.SortFunc(wanted, func(a, b scope) int { return compareExtents(a.extent, b.extent) })
	wanted = slices.CompactFunc(wanted, func(a, b scope) bool { return a.extent == b.extent })
	allowed := make(map[extent]bool, len(wanted))
	for _, s := range wanted {
		allowed[s.extent] = !forbidden(s.extent)
	}
	return slices.DeleteFunc(wanted, func(s scope) bool {
		for other := range s.wider() {
			if allowed[other] {
				return true
			}
		}
		return false
	})
}

// needs reports whether a rule needs just what is in the extent.
func (d demand) needs(at extent) bool {
	r := d[at.resource]
	return r != nil && r.namespaces[at.namespace] != nil && r.namespaces[at.namespace].scopes[at] != nil
}

// union counts the parts of scopes, so that the narrowest scope with all of them is known: it has the parts on which all agree.
type union struct {
	namespaces, names map[string]int
	selectors         map[string]int
	labels            map[string]labels.Selector
}

// count adds a scope, or removes it with a difference of -1.
func (u *union) count(s *scope, difference int) {
	if u.names == nil {
		u.namespaces, u.names, u.selectors, u.labels = map[string]int{}, map[string]int{}, map[string]int{}, map[string]labels.Selector{}
	}
	tally(u.namespaces, s.namespace, difference)
	tally(u.names, s.name, difference)
	if u.labels[s.selector] = s.labels; tally(u.selectors, s.selector, difference) == 0 {
		delete(u.labels, s.selector)
	}
}

func tally(counts map[string]int, part string, difference int) int {
	counts[part] += difference
	left := counts[part]
	if left == 0 {
		delete(counts, part)
	}
	return left
}

// all returns the narrowest scope that covers all.
func (u *union) all(resource schema.GroupVersionResource) scope {
	s := scope{extent: extent{resource: resource, namespace: agreed(u.namespaces), name: agreed(u.names), selector: agreed(u.selectors)}}
	s.labels = u.labels[s.selector]
	return s
}

// agreed returns the part that all have, or "".
func agreed(counts map[string]int) string {
	if len(counts) == 1 {
		for part := range counts {
			return part
		}
	}
	return ""
}
