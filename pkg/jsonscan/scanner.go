// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is the number of objects and arrays that may contain each other, as in encoding/json.
const MaxDepth = 10000

// Scanner is a cursor in one JSON text. The zero value with a Text is ready to use.
type Scanner struct {
	Text []byte
	// Pos is the offset in Text of the next byte to read.
	Pos int

	depth  int
	opened bool // nothing was read yet of the innermost object or array
}

// SyntaxError reports that a text is not valid JSON.
type SyntaxError struct {
	Offset  int
	problem string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.problem, e.Offset) }

// syntax returns an error for the current position.
func (s *Scanner) syntax(problem string) error {
	if s.Pos >= len(s.Text) {
		problem = "unexpected end of JSON input"
	}
	return &SyntaxError{Offset: s.Pos, problem: problem}
}

// Space skips white space and returns the byte after it, without taking it. It returns 0 at the end of the text.
func (s *Scanner) Space() byte {
	if s.Pos < len(s.Text) && s.Text[s.Pos] > ' ' {
		return s.Text[s.Pos]
	}
	return s.skipSpace()
}

func (s *Scanner) skipSpace() byte {
	for ; s.Pos < len(s.Text); s.Pos++ {
		switch c := s.Text[s.Pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// peek returns the next byte, and 0 at the end of the text.
func (s *Scanner) peek() byte {
	if s.Pos < len(s.Text) {
		return s.Text[s.Pos]
	}
	return 0
}

// Open takes the brace or bracket at the current position. It returns an error if that is nested deeper than [MaxDepth].
func (s *Scanner) Open() error {
	if s.depth++; s.depth > MaxDepth {
		return s.syntax(fmt.Sprintf("more than %d levels of nesting", MaxDepth))
	}
	s.Pos++
	s.opened = true
	return nil
}

// Next reports whether the object or array that was opened last has another member or element. It takes the comma before that, or the
// closing brace or bracket.
func (s *Scanner) Next(closing byte) (bool, error) {
	c := s.Space()
	switch {
	case c == closing:
		s.Pos++
		s.depth--
	case s.opened:
		s.opened = false
		return true, nil
	case c == ',':
		s.Pos++
		return true, nil
	default:
		return false, s.syntax("a comma or " + string(closing) + " is expected")
	}
	s.opened = false
	return false, nil
}

// Key takes the key of a member and the colon after it. It returns the key in its quotes, and whether it is plain: ASCII without escapes.
func (s *Scanner) Key() (quoted []byte, plain bool, err error) {
	if s.Space() != '"' {
		return nil, false, s.syntax("a key is expected")
	}
	if quoted, plain, err = s.String(); err != nil {
		return nil, false, err
	}
	if s.Space() != ':' {
		return nil, false, s.syntax("a colon is expected")
	}
	s.Pos++
	return quoted, plain, nil
}

// End returns an error if anything but white space follows.
func (s *Scanner) End() error {
	if s.Space(); s.Pos < len(s.Text) {
		return s.syntax("unexpected data after the JSON value")
	}
	return nil
}

// Unquote returns the content of a valid string: a part of it where it has no escapes. Invalid UTF-8 is replaced, as encoding/json does.
func Unquote(quoted []byte, plain bool) ([]byte, error) {
	if content := quoted[1 : len(quoted)-1]; plain || bytes.IndexByte(content, '\\') < 0 && utf8.Valid(content) {
		return content, nil
	}
	var content string
	err := json.Unmarshal(quoted, &content)
	return []byte(content), err
}
