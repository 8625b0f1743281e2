// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"fmt"
	"hash/maphash"

	"millwright.dev/pkg/jsonscan"
)

// contentOf returns a hash of what people write of an object: of all but its status, and of its metadata the labels and annotations. Unlike the
// generation, every kind has it.
func contentOf(o object) (uint64, error) {
	var sum maphash.Hash
	sum.SetSeed(seed)
	text := []byte(o.JSON())
	err := jsonscan.EachMember(text, func(key, value []byte) error {
		switch string(key) {
		case `"status"`:
		case `"metadata"`:
			return jsonscan.EachMember(value, func(key, value []byte) error {
				if field := string(key); field == `"labels"` || field == `"annotations"` {
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
		return 0, fmt.Errorf("reading the parent: %w", err)
	}
	return sum.Sum64(), nil
}

func addMember(sum *maphash.Hash, key, value []byte) {
	sum.Write(key)
	sum.Write(value)
	sum.WriteByte(0)
}
