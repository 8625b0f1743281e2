// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"fmt"
	"hash/maphash"

	"millwright.dev/pkg/jsonscan"
)

// contentOf returns a hash of what people write of an object: of all but its status, and of its metadata the labels, the annotations, and whether it is being
// deleted. Unlike the generation, every kind has it.
func contentOf(o object) (uint64, error) {
	return hashOf(o, func(field string) bool {
		return field == `"labels"` || field == `"annotations"` || field == `"deletionTimestamp"`
	})
}

// differsInMoreThanStatus reports whether two versions of an object differ in more than what each change of the status changes.
func differsInMoreThanStatus(before, after object) bool {
	counts := func(field string) bool {
		return field != `"resourceVersion"` && field != `"managedFields"` && field != `"generation"`
	}
	was, errWas := hashOf(before, counts)
	is, errIs := hashOf(after, counts)
	return was != is || errWas != nil || errIs != nil
}

// hashOf returns a hash of an object without its status, and with those fields of its metadata that count, which are given as JSON.
func hashOf(o object, counts func(field string) bool) (uint64, error) {
	var sum maphash.Hash
	sum.SetSeed(seed)
	text := []byte(o.JSON())
	err := jsonscan.EachMember(text, func(key, value []byte) error {
		switch string(key) {
		case `"status"`:
		case `"metadata"`:
			return jsonscan.EachMember(value, func(key, value []byte) error {
				if counts(string(key)) {
					addMember(&sum, key, value)
				}
				return nil
			})
		default:
			addMember(&sum, key, value)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", o.GetName(), err)
	}
	return sum.Sum64(), nil
}

func addMember(sum *maphash.Hash, key, value []byte) {
	sum.Write(key)
	sum.Write(value)
	sum.WriteByte(0)
}
