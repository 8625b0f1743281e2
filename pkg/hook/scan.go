// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"millwright.dev/pkg/jsonscan"
)

// fewKeys is the number of keys up to which all pairs of keys of an object are compared. Above it the keys are sorted.
const fewKeys = 16

// scanner accepts what encoding/json accepts, except for objects with duplicate keys: readers of JSON do not agree on which of the
// values counts. Its errors name the path to the value.
type scanner struct {
	jsonscan.Scanner
	// keys of the objects that are open, without quotes and escapes.
	keys [][]byte
}

// value takes one value of any type and returns its text.
func (s *scanner) value() ([]byte, error) {
	var err error
	c, from := s.Space(), s.Pos
	switch c {
	case '{':
		err = s.object(nil, nil)
	case '[':
		err = s.array(nil)
	default:
		return s.Scalar()
	}
	if err != nil {
		return nil, err
	}
	return s.Text[from:s.Pos], nil
}

// object takes an object. The field function takes the value of a key; without one, values are skipped. The duplicate function is called
// for each duplicate key; without one, a duplicate key is an error.
func (s *scanner) object(field func(key []byte) error, duplicate func(key []byte)) error {
	if err := s.Open(); err != nil {
		return err
	}
	base := len(s.keys)
	for {
		more, err := s.Next('}')
		if err != nil {
			return err
		}
		if !more {
			err := reportDuplicates(s.keys[base:], duplicate)
			s.keys = s.keys[:base]
			return err
		}
		key, err := s.key()
		if err != nil {
			return err
		}
		s.keys = append(s.keys, key)
		if field == nil {
			_, err = s.value()
		} else {
			err = field(key)
		}
		if err != nil {
			return within(err, shorten(string(key)))
		}
	}
}

// array takes an array. The element function takes an element; without one, elements are skipped.
func (s *scanner) array(element func() error) error {
	if err := s.Open(); err != nil {
		return err
	}
	for index := 0; ; index++ {
		more, err := s.Next(']')
		if err != nil || !more {
			return err
		}
		if element == nil {
			_, err = s.value()
		} else {
			err = element()
		}
		if err != nil {
			return within(err, fmt.Sprintf("[%d]", index))
		}
	}
}

// key takes a key and the colon after it, and returns the key without quotes and escapes.
func (s *scanner) key() ([]byte, error) {
	quoted, plain, err := s.Key()
	if err != nil {
		return nil, err
	}
	return jsonscan.Unquote(quoted, plain)
}

// str takes a string and returns it without quotes and escapes.
func (s *scanner) str() ([]byte, error) {
	quoted, plain, err := s.String()
	if err != nil {
		return nil, err
	}
	return jsonscan.Unquote(quoted, plain)
}

// reportDuplicates calls report for each duplicate key, or returns an error for the first where report is nil. It may sort the keys.
func reportDuplicates(keys [][]byte, report func(key []byte)) error {
	found := func(key []byte) error {
		if report == nil {
			return &fault{reason: ReasonInvalidJSON, text: fmt.Sprintf("has the key %q twice", shorten(string(key)))}
		}
		report(key)
		return nil
	}
	if len(keys) <= fewKeys {
		for i, key := range keys {
			for _, earlier := range keys[:i] {
				if bytes.Equal(earlier, key) {
					if err := found(key); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	slices.SortFunc(keys, func(a, b []byte) int { // by length first, which compares fewer bytes
		return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b))
	})
	for i := 1; i < len(keys); i++ {
		if bytes.Equal(keys[i-1], keys[i]) {
			if err := found(keys[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
