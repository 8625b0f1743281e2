// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package rollout

import "millwright.dev/pkg/apis/metacontroller/v1alpha1"

// Revision is a revision of a parent.
type Revision struct {
	// Claims are the children that its record claims, as they are recorded.
	Claims []v1alpha1.ControllerRevisionChildren
	// Desires reports whether the hook desires a child of the Order for this revision. It is not called for the latest revision.
	Desires func(child int) bool
}

// Claims are the revisions of the children of a parent.
type Claims struct {
	*Order
	revisions []Revision
	// of is the revision of each child, or unclaimed.
	of []int
}

const (
	latest    = 0
	unclaimed = -1
)

// NewClaims returns the claims of revisions, of which the first is the latest, on the children of an Order. A claim ends when its child is not desired any
// more, by the latest revision or by its own, or when an earlier revision of the list claims the child, too.
func NewClaims(revisions []Revision, order *Order) *Claims {
	c := &Claims{Order: order, revisions: revisions, of: make([]int, order.Len())}
	for child := range c.of {
		c.of[child] = unclaimed
	}
	for i, revision := range revisions {
		for _, recorded := range revision.Claims {
			for _, name := range recorded.Names {
				child, desired := order.index[Child{recorded.APIGroup, recorded.Kind, name}]
				if desired && c.of[child] == unclaimed && (i == latest || revision.Desires(child)) {
					c.of[child] = i
				}
			}
		}
	}
	return c
}

// Of returns the revision of a child, and false if it has none: then it was never moved, or the record of its revision was deleted or is outdated.
func (c *Claims) Of(child int) (revision int, claimed bool) {
	return c.of[child], c.of[child] != unclaimed
}

// Record is what the record of a revision claims, sorted, and how many children that are.
type Record struct {
	Claims []v1alpha1.ControllerRevisionChildren
	Count  int
}

// Records returns what the record of each revision claims.
func (c *Claims) Records() []Record {
	records := make([]Record, len(c.revisions))
	for _, child := range c.sorted {
		if of, claimed := c.Of(child); claimed {
			records[of].add(c.children[child])
		}
	}
	return records
}

// add adds a child that is sorted after all others.
func (r *Record) add(child Child) {
	last := len(r.Claims) - 1
	if last < 0 || r.Claims[last].APIGroup != child.Group || r.Claims[last].Kind != child.Kind {
		r.Claims = append(r.Claims, v1alpha1.ControllerRevisionChildren{APIGroup: child.Group, Kind: child.Kind})
		last++
	}
	r.Claims[last].Names = append(r.Claims[last].Names, child.Name)
	r.Count++
}

// onLatest returns how many children have the latest revision.
func (c *Claims) onLatest() (n int) {
	for _, revision := range c.of {
		if revision == latest {
			n++
		}
	}
	return n
}
