// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import (
	"fmt"
	"slices"
	"strconv"
)

// protocol is TCP if it is not set: in the ports of Services, containers, network policies and endpoints. The API server sets it, and
// authors of hooks often leave it out.
const (
	protocol        = "protocol"
	defaultProtocol = "TCP"
)

// distinguishing are the fields that distinguish elements with equal keys, in the order in which they are tried.
var distinguishing = append(append([]string{protocol}, mapKeys...), "kind", "namespace", "pathType", "hostPort", "hostIP")

// The lists, by their numbers.
const (
	observedList = iota
	appliedList
	desiredList
)

// surplus is the number of an observed element that nothing distinguishes from desired ones, of which there are enough.
const surplus = -1

// place is the list of an element, and its position there.
type place struct{ list, at int }

// distinguish gives different identities to the elements of one list that have the same key. Elements whose key is unique in every list
// keep their identity.
func distinguish(key string, lists [][]any, found []index) {
	groups := map[identity][]place{}
	crowded := map[identity]bool{}
	for list := range found {
		for at, id := range found[list].ids {
			groups[id] = append(groups[id], place{list, at})
			crowded[id] = crowded[id] || found[list].find(id) != at
		}
	}
	for id, group := range groups {
		if !crowded[id] {
			continue
		}
		for i, number := range numberWithin(key, lists, group) {
			found[group[i].list].ids[group[i].at].among = number
		}
	}
}

// numberWithin returns a number for each element of a group with equal keys. Those that are the same one in different lists get
// the same number: they agree in every field that was needed. Those that no field distinguishes are the same one if they have the
// same rank. The number of them that is desired is kept: further observed ones are surplus.
func numberWithin(key string, lists [][]any, group []place) []int {
	names := make([]string, len(group))
	for _, field := range distinguishing {
		values, all := valuesOf(field, lists, group)
		if field == key || !all {
			continue
		}
		alike := map[string]*class{}
		for i, place := range group {
			c := alike[names[i]]
			if c == nil {
				c = &class{value: values[i]}
				alike[names[i]] = c
			}
			c.sizes[place.list]++
			c.differ = c.differ || values[i] != c.value
		}
		for i := range group {
			if c := alike[names[i]]; c.differ && c.crowded() {
				names[i] += strconv.Quote(values[i])
			}
		}
	}
	return numberByRank(names, group)
}

// class is what the elements of a group have in common that are not distinguished yet.
type class struct {
	sizes [desiredList + 1]int
	// value is that of the next field in one of them, and differ reports whether another has another.
	value  string
	differ bool
}

// crowded reports whether one list has several elements of the class.
func (c *class) crowded() bool { return slices.Max(c.sizes[:]) > 1 }

func numberByRank(names []string, group []place) []int {
	type rankOf struct {
		name string
		list int
	}
	type ranked struct {
		name string
		rank int
	}
	wanted, ranks, numbers := map[string]int{}, map[rankOf]int{}, map[ranked]int{}
	for i, place := range group {
		if place.list == desiredList {
			wanted[names[i]]++
		}
	}
	among := make([]int, len(group))
	for i, place := range group {
		mine := rankOf{names[i], place.list}
		id := ranked{names[i], ranks[mine]}
		ranks[mine]++
		if enough := wanted[id.name]; place.list == observedList && enough > 0 && id.rank >= enough {
			among[i] = surplus
			continue
		}
		if _, found := numbers[id]; !found {
			numbers[id] = len(numbers)
		}
		among[i] = numbers[id]
	}
	return among
}

// valuesOf returns the values of the field in all elements of the group, if all have a scalar there. All have a protocol.
func valuesOf(field string, lists [][]any, group []place) (values []string, all bool) {
	values = make([]string, len(group))
	for i, place := range group {
		value := lists[place.list][place.at].(map[string]any)[field]
		switch value.(type) {
		case nil:
			values[i] = defaultProtocol
			all = field == protocol
		case map[string]any, []any:
			values[i] = kindOf(value)
			all = field == protocol
		default:
			values[i] = fmt.Sprint(value)
			all = true
		}
		if !all {
			return nil, false
		}
	}
	return values, true
}
