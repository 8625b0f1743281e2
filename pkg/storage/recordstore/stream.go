// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"errors"
	"fmt"
	"io"

	"millwright.dev/pkg/jsonscan"
)

var errNotJSON = errors.New("this is not the JSON of an API server")

// stream reads JSON values one after the other while they arrive. It only finds where a value ends: the decoder of the value validates it.
type stream struct {
	reader io.Reader
	buffer []byte
	// buffer[next:filled] has arrived and was not taken yet.
	next, filled int
	err          error // of the reader
}

// newStream returns a stream with a buffer of the given size in bytes, which grows with the values.
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

// peek returns the next byte that is not white space, without taking it.
func (s *stream) peek() (byte, error) {
	for {
		for ; s.next < s.filled; s.next++ {
			switch c := s.buffer[s.next]; c {
			case ' ', '\n', '\t', '\r':
			default:
				return c, nil
			}
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
}

// accept takes the next byte if it is the wanted one, and reports whether it was.
func (s *stream) accept(want byte) (bool, error) {
	c, err := s.peek()
	if err != nil || c != want {
		return false, err
	}
	s.next++
	return true, nil
}

// expect takes the wanted byte.
func (s *stream) expect(want byte) error {
	found, err := s.accept(want)
	switch {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case err == nil && !found:
		return fmt.Errorf("%w: %q where %q should be", errNotJSON, s.buffer[s.next], want)
	}
	return err
}

// value returns the text of the next value, which may be used until the next call. The error is io.EOF at the end of the stream.
func (s *stream) value() ([]byte, error) {
	if _, err := s.peek(); err != nil {
		return nil, err
	}
	for {
		end, _ := jsonscan.Skip(s.buffer[:s.filled], s.next)
		if end > s.next {
			value := s.buffer[s.next:end]
			s.next = end
			return value, nil
		}
		if end == s.next {
			return nil, fmt.Errorf("%w: %q where a value should be", errNotJSON, s.buffer[s.next])
		}
		if err := s.fill(); err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return nil, err
		}
	}
}

// members calls visit with the name, without quotes, and the value of each member of an object.
func members(object []byte, visit func(name, value []byte)) error {
	s := jsonscan.Scanner{Text: object}
	if s.Space() != '{' {
		return fmt.Errorf("%w: it does not begin with a brace", errNotJSON)
	}
	if err := s.Open(); err != nil {
		return err
	}
	for {
		more, err := s.Next('}')
		if err != nil || !more {
			return err
		}
		name, _, err := s.Key()
		if err != nil {
			return err
		}
		value, _, err := s.Skip()
		if err != nil {
			return err
		}
		visit(name[1:len(name)-1], value)
	}
}

// members reads an object whose opening brace was taken. visit must take the value, after which the name is no longer valid.
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
			err = fmt.Errorf("%w: %q where the name of a member should be", errNotJSON, name)
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
