// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

var errNoJSON = errors.New("it is no JSON of an API server")

// stream reads JSON values one after the other while they come in. It takes care to find where a value ends, and leaves it to who decodes
// the value to find whether it is valid.
type stream struct {
	reader io.Reader
	buffer []byte
	// buffer[next:filled] was read and is still to be looked at.
	next, filled int
	err          error // of the reader
}

// newStream returns a stream that begins with a buffer of that size, and lets it grow as the values are.
func newStream(reader io.Reader, size int) *stream {
	return &stream{reader: reader, buffer: make([]byte, size)}
}

// fill reads more.
func (s *stream) fill() error {
	if s.err != nil {
		return s.err
	}
	if s.next > 0 {
		s.filled = copy(s.buffer, s.buffer[s.next:s.filled])
		s.next = 0
	}
	if s.filled == len(s.buffer) {
		s.buffer = append(s.buffer, make([]byte, len(s.buffer))...)
	}
	n, err := s.reader.Read(s.buffer[s.filled:])
	s.filled += n
	s.err = err
	if n > 0 {
		return nil
	}
	return err
}

// peek returns the next byte that is no space, and leaves it.
func (s *stream) peek() (byte, error) {
	for {
		for ; s.next < s.filled; s.next++ {
			if c := s.buffer[s.next]; !isSpace(c) {
				return c, nil
			}
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
}

// accept takes that byte if it is the next one.
func (s *stream) accept(want byte) (bool, error) {
	c, err := s.peek()
	if err != nil || c != want {
		return false, err
	}
	s.next++
	return true, nil
}

// expect takes that byte.
func (s *stream) expect(want byte) error {
	found, err := s.accept(want)
	switch {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case err == nil && !found:
		return fmt.Errorf("%w: %q where %q should be", errNoJSON, s.buffer[s.next], want)
	}
	return err
}

// value returns the next value, which is valid until the next call. The error is io.EOF where there is none.
func (s *stream) value() ([]byte, error) {
	if _, err := s.peek(); err != nil {
		return nil, err
	}
	for {
		end := skipValue(s.buffer[:s.filled], s.next)
		if end > s.next {
			value := s.buffer[s.next:end]
			s.next = end
			return value, nil
		}
		if end == s.next {
			return nil, fmt.Errorf("%w: %q where a value should be", errNoJSON, s.buffer[s.next])
		}
		if err := s.fill(); err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return nil, err
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// skipValue returns where the value ends that begins at a position: -1 if it does not end in the text.
func skipValue(text []byte, at int) int {
	depth := 0
	for at < len(text) {
		switch c := text[at]; c {
		case '"':
			if at = skipString(text, at); at < 0 || depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return at // behind a number, true, false or null
			}
		}
		at++
	}
	return -1
}

// skipString returns where the string ends that begins at a position: -1 if it does not end in the text.
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

// members calls visit with the name, without quotes, and the value of each member of an object.
func members(object []byte, visit func(name, value []byte)) error {
	s := &stream{buffer: object, filled: len(object), err: io.EOF}
	if err := s.expect('{'); err != nil {
		return err
	}
	return s.members(func(name []byte) error {
		value, err := s.value()
		if err == nil {
			visit(name, value)
		}
		return err
	})
}

// members reads an object whose brace was taken. visit has to look at the name, which is valid no longer, and then to take the value.
func (s *stream) members(visit func(name []byte) error) error {
	for first := true; ; first = false {
		if end, err := s.accept('}'); end || err != nil {
			return err
		}
		if !first {
			if err := s.expect(','); err != nil {
				return err
			}
		}
		name, err := s.value()
		if err == nil && (len(name) < 2 || name[0] != '"') {
			err = fmt.Errorf("%w: %q where the name of a member should be", errNoJSON, name)
		}
		if err != nil {
			return err
		}
		name = name[1 : len(name)-1]
		if err := s.expect(':'); err != nil {
			return err
		}
		if err := visit(name); err != nil {
			return err
		}
	}
}
