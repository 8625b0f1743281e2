// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package rollout

import (
	"cmp"
	"slices"
)

// Child is a child of a type that rolls, in the namespace of its parent.
type Child struct{ Group, Kind, Name string }

func (c Child) String() string { return c.Kind + " " + c.Name }

func (c Child) compare(other Child) int {
	return cmp.Or(cmp.Compare(c.Group, other.Group), cmp.Compare(c.Kind, other.Kind), cmp.Compare(c.Name, other.Name))
}

// Order is the children that the latest revision desires, in the order in which they are moved. A child is meant by its index. An Order may be used for
// many plans, and is not changed.
type Order struct {
	children []Child
	index    map[Child]int
	// sorted are the indexes in the order of records.
	sorted []int
}

// NewOrder returns the Order of children, each of which is in the list once.
func NewOrder(children []Child) *Order {
	o := &Order{children: children, index: make(map[Child]int, len(children)), sorted: make([]int, len(children))}
	for i, child := range children {
		o.index[child], o.sorted[i] = i, i
	}
	slices.SortFunc(o.sorted, func(a, b int) int { return children[a].compare(children[b]) })
	return o
}

// Len returns how many children there are.
func (o *Order) Len() int { return len(o.children) }
