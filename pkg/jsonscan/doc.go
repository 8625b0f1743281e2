// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jsonscan reads JSON (RFC 8259) in place: it finds where values begin and end in a text, and allocates nothing. Packages use it
// that need a few fields of a large text, or the text of a value, and would throw away the tree that a decoder makes.
//
// There are two ways to get past a value:
//
//   - [Scanner.Value] validates it. It accepts exactly what encoding/json accepts. For texts of unknown origin, such as the answer of a hook.
//   - [Skip] and [Scanner.Skip] only look for its end, at several times the speed. They never read outside the text and never loop, but
//     accept much that is not JSON. For texts that were validated before, or are decoded afterwards, such as the answers of an API server.
//
// Objects and arrays are read with a cursor:
//
//	for err := s.Open(); ; {            // takes the brace
//		more, err := s.Next('}')        // takes the comma
//		key, plain, err := s.Key()     // takes the colon
//		value, err := s.Value()
//	}
//
// [EachMember] is that loop for an object whose values are not validated.
package jsonscan
