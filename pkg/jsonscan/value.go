// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import "unicode/utf8"

// Value takes one value of any type, validates it and returns its text.
func (s *Scanner) Value() ([]byte, error) {
	c := s.Space()
	from := s.Pos
	var err error
	switch c {
	case '{':
		err = s.object()
	case '[':
		err = s.array()
	default:
		_, err = s.Scalar()
	}
	if err != nil {
		return nil, err
	}
	return s.Text[from:s.Pos], nil
}

func (s *Scanner) object() error {
	if err := s.Open(); err != nil {
		return err
	}
	for {
		more, err := s.Next('}')
		if err != nil || !more {
			return err
		}
		if _, _, err := s.Key(); err != nil {
			return err
		}
		if _, err := s.Value(); err != nil {
			return err
		}
	}
}

func (s *Scanner) array() error {
	if err := s.Open(); err != nil {
		return err
	}
	for {
		more, err := s.Next(']')
		if err != nil || !more {
			return err
		}
		if _, err := s.Value(); err != nil {
			return err
		}
	}
}

// Scalar takes the string, number, true, false or null at the current position, validates it and returns its text.
func (s *Scanner) Scalar() ([]byte, error) {
	from := s.Pos
	var err error
	switch s.peek() {
	case '"':
		_, _, err = s.String()
	case 't':
		err = s.Literal("true")
	case 'f':
		err = s.Literal("false")
	case 'n':
		err = s.Literal("null")
	default:
		err = s.number()
	}
	return s.Text[from:s.Pos], err
}

// Literal takes true, false or null.
func (s *Scanner) Literal(word string) error {
	if rest := s.Text[s.Pos:]; len(rest) < len(word) || string(rest[:len(word)]) != word {
		return s.syntax("invalid character")
	}
	s.Pos += len(word)
	return nil
}

// special are the bytes that do not stand for themselves in a string, and those beyond ASCII.
var special = func() (special [256]bool) {
	for c := range special {
		special[c] = c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf
	}
	return special
}()

// String takes the string at the current position. It returns it in its quotes, and whether it is plain: ASCII without escapes.
func (s *Scanner) String() (quoted []byte, plain bool, err error) {
	from, text := s.Pos, s.Text
	plain = true
	for at := from + 1; at < len(text); at++ {
		c := text[at]
		if !special[c] {
			continue
		}
		switch {
		case c == '"':
			s.Pos = at + 1
			return text[from:s.Pos], plain, nil
		case c == '\\':
			s.Pos = at
			if err := s.escape(); err != nil {
				return nil, false, err
			}
			at = s.Pos
		case c < ' ':
			s.Pos = at
			return nil, false, s.syntax("invalid control character in a string")
		}
		plain = false
	}
	s.Pos = len(text)
	return nil, false, s.syntax("")
}

// escape takes a backslash and what it escapes, except for the last byte of that.
func (s *Scanner) escape() error {
	s.Pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			s.Pos++
			switch c := s.peek(); {
			case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			default:
				return s.syntax("invalid escape in a string")
			}
		}
		return nil
	}
	return s.syntax("invalid escape in a string")
}

// number takes a number: no leading zeros, no plus sign, digits on both sides of the point.
func (s *Scanner) number() error {
	if s.peek() == '-' {
		s.Pos++
	}
	if s.peek() == '0' {
		s.Pos++
	} else if !s.digits() {
		return s.syntax("invalid character")
	}
	if s.peek() == '.' {
		s.Pos++
		if !s.digits() {
			return s.syntax("invalid number")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.Pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.Pos++
		}
		if !s.digits() {
			return s.syntax("invalid number")
		}
	}
	return nil
}

// digits takes the digits that follow, and reports whether there are any.
func (s *Scanner) digits() bool {
	at := s.Pos
	for at < len(s.Text) && s.Text[at]-'0' <= 9 {
		at++
	}
	found := at > s.Pos
	s.Pos = at
	return found
}
