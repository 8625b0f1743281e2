// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

// EachMember calls visit with each member of the object that a text is, in their order, until one returns an error, which it returns. The keys are quoted,
// and the values are not validated: see [Skip]. It returns an error if the text is no object.
func EachMember(text []byte, visit func(key, value []byte) error) error {
	s := Scanner{Text: text}
	if s.Space() != '{' {
		return s.syntax("an object is expected")
	}
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
		if err != nil {
			return err
		}
		if err := visit(key, value); err != nil {
			return err
		}
	}
}
