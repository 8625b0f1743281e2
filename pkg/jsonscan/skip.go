// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import "bytes"

// Skip returns the offset at which the value ends that begins at an offset, and whether there is white space between the parts of that
// value. It does not validate the value. The end is -1 if the text ends first, and equals the given offset if no value begins there.
// At the end of a text, a number, true, false or null has no end: more of it may follow.
func Skip(text []byte, at int) (end int, spaced bool) {
	depth := 0
	for at < len(text) {
		switch c := text[at]; c {
		case '"':
			if at = skipString(text, at); at < 0 || depth == 0 {
				return at, spaced
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at, spaced
			}
			if depth--; depth == 0 {
				return at + 1, spaced
			}
		case ',', ':':
			if depth == 0 {
				return at, spaced
			}
		case ' ', '\n', '\t', '\r':
			if depth == 0 {
				return at, spaced
			}
			spaced = true
		}
		at++
	}
	return -1, spaced
}

// skipString returns the offset at which the string ends that begins at an offset, and -1 if the text ends first.
func skipString(text []byte, at int) int {
	for at++; ; {
		length := bytes.IndexByte(text[at:], '"')
		if length < 0 {
			return -1
		}
		escape := bytes.IndexByte(text[at:at+length], '\\')
		if escape < 0 {
			return at + length + 1
		}
		if at += escape + 2; at > len(text) {
			return -1
		}
	}
}

// Skip takes the next value without validating it, and returns its text and whether there is white space between its parts. The value must
// be within an object or array, so that something follows it.
func (s *Scanner) Skip() (value []byte, spaced bool, err error) {
	s.Space()
	end, spaced := Skip(s.Text, s.Pos)
	switch {
	case end < 0:
		s.Pos = len(s.Text)
		return nil, false, s.syntax("")
	case end == s.Pos:
		return nil, false, s.syntax("a value is expected")
	}
	value = s.Text[s.Pos:end]
	s.Pos = end
	return value, spaced, nil
}

// AppendCompact appends a value to dst, without the white space between its parts.
func AppendCompact(dst, value []byte) []byte {
	s := Scanner{Text: value}
	for s.Space(); s.Pos < len(value); s.Space() {
		start, end := s.Pos, -1
		if value[start] == '"' {
			end = skipString(value, start)
		}
		if end < 0 {
			end = start + 1
		}
		s.Pos = end
		dst = append(dst, value[start:end]...)
	}
	return dst
}
