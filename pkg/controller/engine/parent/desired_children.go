// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"cmp"
	"slices"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
	"millwright.dev/pkg/rollout"
)

// desiredChild is a child in the answer of the hook, with its type.
type desiredChild struct {
	*hook.Child
	in *childType
	// hash of its JSON, or the error that there is none.
	hash uint64
	err  error
	// turn is its index in the order of a rolling update, notRolling if its type does not roll.
	turn int
}

const notRolling = -1

func (c *desiredChild) key() childKey { return c.in.key(c.Namespace, c.Name) }

// desiredChildren are the children in an answer.
type desiredChildren struct {
	// list has them type by type, the children of a type in the order of the answer.
	list []desiredChild
	// rollingOrder is nil if no type rolls.
	*rollingOrder
}

// rollingOrder is the order in which children are updated: that of the answer.
type rollingOrder struct {
	// turns has the places in the list.
	turns []int
	order *rollout.Order
	// at has the place in the list of each child, also of those that do not roll.
	at map[childKey]int
}

// desiredChildren returns the children in an answer.
func (spec *Spec) desiredChildren(children []hook.Child) *desiredChildren {
	d := &desiredChildren{list: make([]desiredChild, 0, len(children))}
	var turns, answered []int // places in the list, and the place of each child of the list in the answer
	for t := range spec.children {
		in := &spec.children[t]
		for i := range children {
			child := &children[i]
			if child.Kind != in.Kind || child.APIVersion != in.apiVersion() {
				continue
			}
			if spec.rolls {
				answered = append(answered, i)
			}
			if in.rolls {
				turns = append(turns, len(d.list))
			}
			hash, err := merge.Hash(child.JSON)
			d.list = append(d.list, desiredChild{child, in, hash, err, notRolling})
		}
	}
	if !spec.rolls {
		return d
	}
	slices.SortFunc(turns, func(a, b int) int { return cmp.Compare(answered[a], answered[b]) })
	order := make([]rollout.Child, len(turns))
	for turn, place := range turns {
		child := &d.list[place]
		child.turn, order[turn] = turn, rollout.Child{Group: child.in.Group, Kind: child.Kind, Name: child.Name}
	}
	d.rollingOrder = &rollingOrder{turns, rollout.NewOrder(order), d.places()}
	return d
}

// places returns the place of each child in the list. The result is not kept: it takes as much memory as the list.
func (d *desiredChildren) places() map[childKey]int {
	if d.rollingOrder != nil {
		return d.at
	}
	at := make(map[childKey]int, len(d.list))
	for place := range d.list {
		at[d.list[place].key()] = place
	}
	return at
}

// find returns a child, nil if it is not desired. It is found fastest where it is in another list of children that roll.
func (d *desiredChildren) find(key childKey, there int) *desiredChild {
	if there < len(d.list) && d.list[there].key() == key {
		return &d.list[there]
	}
	if place, desired := d.at[key]; desired {
		return &d.list[place]
	}
	return nil
}
