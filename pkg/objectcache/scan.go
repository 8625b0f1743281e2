// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"bytes"
	"errors"
)

var errTruncated = errors.New("the JSON text ends too early")

// scanner walks over a JSON text that is known to be valid. It never reads beyond the text, but does not find every fault in it.
type scanner struct {
	text []byte
	pos  int
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.text) && isSpace(s.text[s.pos]) {
		s.pos++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// enter goes into an object or array. It returns false, and stays, where the next value is something else, for example null.
func (s *scanner) enter(open byte) bool {
	s.skipSpace()
	if s.pos >= len(s.text) || s.text[s.pos] != open {
		return false
	}
	s.pos++
	return true
}

// more tells whether the object or array that was entered goes on. It leaves it where it does not.
func (s *scanner) more() (bool, error) {
	s.skipSpace()
	if s.pos < len(s.text) && s.text[s.pos] == ',' {
		s.pos++
		s.skipSpace()
	}
	if s.pos >= len(s.text) {
		return false, errTruncated
	}
	if c := s.text[s.pos]; c == '}' || c == ']' {
		s.pos++
		return false, nil
	}
	return true, nil
}

// key reads the name of the next member, quotes included, and the colon.
func (s *scanner) key() ([]byte, error) {
	s.skipSpace()
	start := s.pos
	if s.pos >= len(s.text) || s.text[s.pos] != '"' {
		return nil, errors.New("an object's member has no name")
	}
	if err := s.skipString(); err != nil {
		return nil, err
	}
	key := s.text[start:s.pos]
	s.skipSpace()
	if s.pos >= len(s.text) || s.text[s.pos] != ':' {
		return nil, errors.New("an object's member has no value")
	}
	s.pos++
	return key, nil
}

// skipString goes from the opening quote of a string to behind the closing one.
func (s *scanner) skipString() error {
	s.pos++
	for {
		end := bytes.IndexByte(s.text[s.pos:], '"')
		if end < 0 {
			return errTruncated
		}
		escape := bytes.IndexByte(s.text[s.pos:s.pos+end], '\\')
		if escape < 0 {
			s.pos += end + 1
			return nil
		}
		if s.pos += escape + 2; s.pos > len(s.text) {
			return errTruncated
		}
	}
}

// value appends the next value to dst, without the space between its parts.
func (s *scanner) value(dst []byte) ([]byte, error) {
	s.skipSpace()
	start := s.pos
	spaced, err := s.skipValue()
	switch text := s.text[start:s.pos]; {
	case err != nil:
		return dst, err
	case spaced:
		return appendCompact(dst, text), nil
	default:
		return append(dst, text...), nil
	}
}

// skipValue goes behind the next value, and tells whether there was space between its parts.
func (s *scanner) skipValue() (spaced bool, err error) {
	s.skipSpace()
	depth := 0
	for start := s.pos; s.pos < len(s.text); {
		switch c := s.text[s.pos]; c {
		case '"':
			if err := s.skipString(); err != nil || depth == 0 {
				return spaced, err
			}
		case '{', '[':
			depth++
			s.pos++
		case '}', ']':
			if depth == 0 {
				return spaced, s.endScalar(start)
			}
			s.pos++
			if depth--; depth == 0 {
				return spaced, nil
			}
		case ' ', '\n', '\t', '\r', ',':
			if depth == 0 {
				return spaced, s.endScalar(start)
			}
			spaced = spaced || c != ','
			s.pos++
		default:
			s.pos++
		}
	}
	return spaced, errTruncated
}

// endScalar ends a number, true, false or null.
func (s *scanner) endScalar(start int) error {
	if start == s.pos {
		return errors.New("a value is missing")
	}
	return nil
}

// appendCompact appends a value without the space between its parts.
func appendCompact(dst, value []byte) []byte {
	s := scanner{text: value}
	for s.skipSpace(); s.pos < len(value); s.skipSpace() {
		start := s.pos
		if value[start] != '"' || s.skipString() != nil {
			s.pos = start + 1
		}
		dst = append(dst, value[start:s.pos]...)
	}
	return dst
}
