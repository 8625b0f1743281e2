// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// maxDepth is how deep JSON may be nested, as in encoding/json.
const maxDepth = 10000

// fewKeys is up to how many keys of an object each is compared with each, for which nothing needs to be sorted.
const fewKeys = 16

// scanner reads JSON (RFC 8259) where it stands. It accepts what encoding/json accepts, but for keys that are in an object
// twice: readers of JSON do not agree on which of them counts.
type scanner struct {
	data  []byte
	pos   int
	depth int
	// keys of the objects that are open, without quotes and escapes.
	keys [][]byte
}

// syntaxError is that something is no JSON.
type syntaxError struct {
	offset int
	text   string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.text, e.offset) }

func (s *scanner) syntax(text string) error {
	if s.pos >= len(s.data) {
		text = "unexpected end of JSON input"
	}
	return &syntaxError{offset: s.pos, text: text}
}

// space skips white space and returns the byte after it, without taking it; zero at the end.
func (s *scanner) space() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// value takes one value of any type and returns its bytes.
func (s *scanner) value() ([]byte, error) {
	c := s.space()
	from := s.pos
	var err error
	switch c {
	case '{':
		err = s.object(nil, nil)
	case '[':
		err = s.array(nil)
	case '"':
		_, err = s.skipString()
	case 't':
		err = s.literal("true")
	case 'f':
		err = s.literal("false")
	case 'n':
		err = s.literal("null")
	default:
		err = s.number()
	}
	if err != nil {
		return nil, err
	}
	return s.data[from:s.pos], nil
}

// object takes an object. The field function takes the value of a key; without one, values are skipped. The duplicate function
// is told of keys that are there twice; without one, that is an error.
func (s *scanner) object(field func(key []byte) error, duplicate func(key []byte)) error {
	if err := s.open(); err != nil {
		return err
	}
	base := len(s.keys)
	if s.space() == '}' {
		s.close()
		return nil
	}
	for {
		if s.space() != '"' {
			return s.syntax("a key is expected")
		}
		key, err := s.str()
		if err != nil {
			return err
		}
		s.keys = append(s.keys, key)
		if s.space() != ':' {
			return s.syntax("a colon is expected")
		}
		s.pos++
		if field == nil {
			_, err = s.value()
		} else {
			err = field(key)
		}
		if err != nil {
			return within(err, shorten(string(key)))
		}
		switch s.space() {
		case ',':
			s.pos++
		case '}':
			s.close()
			err := reportDuplicates(s.keys[base:], duplicate)
			s.keys = s.keys[:base]
			return err
		default:
			return s.syntax("a comma or } is expected")
		}
	}
}

// array takes an array. The element function takes an element; without one, elements are skipped.
func (s *scanner) array(element func() error) error {
	if err := s.open(); err != nil {
		return err
	}
	if s.space() == ']' {
		s.close()
		return nil
	}
	for index := 0; ; index++ {
		var err error
		if element == nil {
			_, err = s.value()
		} else {
			err = element()
		}
		if err != nil {
			return within(err, fmt.Sprintf("[%d]", index))
		}
		switch s.space() {
		case ',':
			s.pos++
		case ']':
			s.close()
			return nil
		default:
			return s.syntax("a comma or ] is expected")
		}
	}
}

func (s *scanner) open() error {
	if s.depth++; s.depth > maxDepth {
		return s.syntax("the JSON is nested too deep")
	}
	s.pos++
	return nil
}

func (s *scanner) close() {
	s.depth--
	s.pos++
}

// str takes a string and returns what it says.
func (s *scanner) str() ([]byte, error) {
	from := s.pos
	escaped, err := s.skipString()
	if err != nil || !escaped {
		return s.data[from+1 : max(s.pos-1, from+1)], err
	}
	var text string
	err = json.Unmarshal(s.data[from:s.pos], &text)
	return []byte(text), err
}

// skipString takes a string and tells whether there are escapes in it.
func (s *scanner) skipString() (escaped bool, err error) {
	for s.pos++; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return false, err
			}
		case c < ' ':
			return false, s.syntax("invalid control character in a string")
		}
	}
	return false, s.syntax("")
}

// escape takes a backslash and what it escapes, but for the last byte of that.
func (s *scanner) escape() error {
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			s.pos++
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

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return s.syntax("invalid character")
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return s.syntax("invalid character")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.syntax("invalid number")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.syntax("invalid number")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	from := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > from
}

// peek returns the next byte, zero at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// end checks that nothing follows.
func (s *scanner) end() error {
	s.space()
	if s.pos < len(s.data) {
		return s.syntax("something follows the JSON object, which is not allowed,")
	}
	return nil
}

// reportDuplicates finds keys that are there twice. It may sort them.
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
	slices.SortFunc(keys, func(a, b []byte) int { // not by the alphabet, which compares more bytes
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
