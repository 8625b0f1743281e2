// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import (
	"fmt"
	"strconv"
)

// identity decides which elements of the observed, the applied and the desired list are the same one. It is comparable, and needs no
// allocation if the value is a string or an integer.
type identity struct {
	text   string
	number int64
	isText bool
	// among distinguishes elements of one list that have the same value (duplicates.go). It is 0 where there is one.
	among int
}

// identityOf returns the identity of the value of a map key. Values with the same text are the same: 80 and "80" are.
func identityOf(value any) identity {
	switch value := value.(type) {
	case int64:
		return identity{number: value}
	case string:
		if number, ok := asInteger(value); ok {
			return identity{number: number}
		}
		return identity{text: value, isText: true}
	default:
		return identityOf(fmt.Sprint(value))
	}
}

// asInteger reads a number that has the form of an int64: "08" and "+8" are text.
func asInteger(text string) (number int64, ok bool) {
	digits := text
	if len(digits) > 1 && digits[0] == '-' {
		digits = digits[1:]
	}
	if digits == "" || digits[0] < '0' || digits[0] > '9' || digits[0] == '0' && text != "0" {
		return 0, false
	}
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil
}

// identify returns the identities of the elements of three lists by their key. Within each list no two elements have the same identity.
func identify(key string, observed, applied, desired []any) (have, last, want index) {
	lists := [...][]any{observedList: observed, appliedList: applied, desiredList: desired}
	all := make([]identity, 0, len(observed)+len(applied)+len(desired))
	var found [len(lists)]index
	twice := false
	for i, list := range lists {
		for _, element := range list {
			all = append(all, identityOf(element.(map[string]any)[key]))
		}
		found[i] = newIndex(all[len(all)-len(list):])
		twice = twice || found[i].hasTwice()
	}
	if twice {
		distinguish(key, lists[:], found[:])
		for i := range found {
			found[i] = newIndex(found[i].ids)
		}
	}
	return found[observedList], found[appliedList], found[desiredList]
}

// index finds elements by their identity.
type index struct {
	ids []identity
	// places is nil for a short list, which is faster to search.
	places map[identity]int
}

const shortList = 8

func newIndex(ids []identity) index {
	x := index{ids: ids}
	if len(ids) > shortList {
		x.places = make(map[identity]int, len(ids))
		for i, id := range ids {
			if _, found := x.places[id]; !found {
				x.places[id] = i
			}
		}
	}
	return x
}

// find returns the first place of the identity, -1 if it has none.
func (x index) find(id identity) int {
	if x.places != nil {
		if i, found := x.places[id]; found {
			return i
		}
		return -1
	}
	for i := range x.ids {
		if x.ids[i] == id {
			return i
		}
	}
	return -1
}

func (x index) hasTwice() bool {
	for i, id := range x.ids {
		if x.find(id) != i {
			return true
		}
	}
	return false
}
