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
	err := eachMember(text, func(key string, value []byte) error {
		switch key {
		case `"status"`:
		case `"metadata"`:
			return eachMember(value, func(key string, value []byte) error {
				if key == `"labels"` || key == `"annotations"` {
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

func addMember(sum *maphash.Hash, key string, value []byte) {
	sum.WriteString(key)
	sum.Write(value)
	sum.WriteByte(0)
}

// eachMember calls visit with each member of a JSON object. The key is quoted.
func eachMember(text []byte, visit func(key string, value []byte) error) error {
	s := jsonscan.Scanner{Text: text}
	s.Space()
	if err := s.Open(); err != nil {
		return err
	}
	for {
		more, err := s.Next('}')
		if err != nil || !more {
			return err
		}
		key, _, err := s.Key()
		if err != nil {
			return err
		}
		value, _, err := s.Skip()
		if err == nil {
			err = visit(string(key), value)
		}
		if err != nil {
			return err
		}
	}
}
