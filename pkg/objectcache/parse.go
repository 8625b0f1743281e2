// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"millwright.dev/pkg/jsonscan"
)

// Parse makes a RawObject of the JSON of one object, for example of the answer to a write. It returns an error for what is not valid
// JSON, not an object, or has no apiVersion or kind.
func Parse(text []byte, keepManagedFields bool) (*RawObject, error) {
	if !json.Valid(text) {
		return nil, errors.New("parsing an object: not valid JSON")
	}
	p := parser{keepManagedFields: keepManagedFields}
	return p.parse(text, nil)
}

// parser makes RawObjects of valid JSON. It keeps its buffers from one object to the next.
type parser struct {
	keepManagedFields bool
	// known finds an object that may be the same as the one read now; it is then used again instead of a copy. Optional.
	known func(namespace, name []byte) *RawObject

	kind                      *objectKind // of the last object
	quotedVersion, quotedKind []byte
	buffer                    []byte // the compact JSON so far
	header                    RawObject
	labels                    []labelSpan
}

// parse reads one object. The items of lists of built-in kinds have no apiVersion and kind: listed are those that the list has, or nil.
func (p *parser) parse(text []byte, listed *objectKind) (*RawObject, error) {
	o, err := p.read(text, listed)
	if err != nil {
		return nil, fmt.Errorf("parsing an object: %w", err)
	}
	return o, nil
}

func (p *parser) read(text []byte, listed *objectKind) (*RawObject, error) {
	if len(text) >= escaped {
		return nil, errors.New("it is too large")
	}
	if listed == nil {
		if err := p.readKind(text); err != nil {
			return nil, err
		}
	} else {
		p.kind = listed
	}
	p.header = RawObject{kind: p.kind}
	p.labels = p.labels[:0]
	p.buffer = append(p.buffer[:0], p.kind.prefix...)
	s := jsonscan.Scanner{Text: text}
	if !enter(&s, '{') {
		return nil, errNotObject
	}
	for {
		more, err := s.Next('}')
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if err := p.readMember(&s); err != nil {
			return nil, err
		}
	}
	p.buffer = append(p.buffer, '}')
	return p.object(), nil
}

// object returns what was read, in as little memory as there can be: none where it is known already.
func (p *parser) object() *RawObject {
	if p.known != nil {
		known := p.known(p.text(p.header.namespace), p.text(p.header.name))
		if known != nil && known.text == string(p.buffer) {
			return known
		}
	}
	o := p.header
	o.text = string(p.buffer)
	if len(p.labels) > 0 {
		o.labels = slices.Clip(slices.Clone(p.labels))
	}
	return &o
}

func (p *parser) text(s span) []byte { return p.buffer[s.start : s.start+s.size&^escaped] }

// readKind finds apiVersion and kind, as a rule the first two members.
func (p *parser) readKind(text []byte) error {
	apiVersion, kind := p.quotedVersion[:0], p.quotedKind[:0]
	s := jsonscan.Scanner{Text: text}
	if !enter(&s, '{') {
		return errNotObject
	}
	for len(apiVersion) == 0 || len(kind) == 0 {
		more, err := s.Next('}')
		if err != nil {
			return err
		}
		if !more {
			return errors.New("it has no apiVersion or no kind")
		}
		key, _, err := s.Key()
		if err != nil {
			return err
		}
		switch string(key) {
		case `"apiVersion"`:
			apiVersion, err = appendValue(apiVersion[:0], &s)
		case `"kind"`:
			kind, err = appendValue(kind[:0], &s)
		default:
			_, _, err = s.Skip()
		}
		if err != nil {
			return err
		}
	}
	p.quotedVersion, p.quotedKind = apiVersion, kind
	if p.kind != nil && isQuoted(apiVersion, p.kind.apiVersion) && isQuoted(kind, p.kind.kind) {
		return nil
	}
	var names [2]string
	if err := json.Unmarshal(slices.Concat([]byte("["), apiVersion, []byte(","), kind, []byte("]")), &names); err != nil {
		return fmt.Errorf("reading apiVersion and kind: %w", err)
	}
	p.kind = newKind(names[0], names[1])
	return nil
}

func isQuoted(quoted []byte, s string) bool {
	return len(quoted) == len(s)+2 && string(quoted[1:len(quoted)-1]) == s
}

func newKind(apiVersion, kind string) *objectKind {
	quotedVersion, _ := json.Marshal(apiVersion) // of a string, which cannot fail
	quotedKind, _ := json.Marshal(kind)
	return &objectKind{
		apiVersion: apiVersion,
		kind:       kind,
		prefix:     fmt.Sprintf(`{"apiVersion":%s,"kind":%s`, quotedVersion, quotedKind),
	}
}

func (p *parser) readMember(s *jsonscan.Scanner) error {
	key, _, err := s.Key()
	if err != nil {
		return err
	}
	switch string(key) {
	case `"apiVersion"`, `"kind"`: // the prefix has them
		_, _, err := s.Skip()
		return err
	case `"metadata"`:
		p.buffer = append(p.buffer, `,"metadata":`...)
		return p.readMetadata(s)
	}
	p.buffer = append(append(append(p.buffer, ','), key...), ':')
	p.buffer, err = appendValue(p.buffer, s)
	return err
}

func (p *parser) readMetadata(s *jsonscan.Scanner) (err error) {
	if !enter(s, '{') {
		p.buffer, err = appendValue(p.buffer, s)
		return err
	}
	p.buffer = append(p.buffer, '{')
	for first := true; ; {
		more, err := s.Next('}')
		if err != nil {
			return err
		}
		if !more {
			p.buffer = append(p.buffer, '}')
			return nil
		}
		key, _, err := s.Key()
		if err != nil {
			return err
		}
		if !p.keepManagedFields && string(key) == `"managedFields"` {
			if _, _, err := s.Skip(); err != nil {
				return err
			}
			continue
		}
		if !first {
			p.buffer = append(p.buffer, ',')
		}
		first = false
		p.buffer = append(append(p.buffer, key...), ':')
		start := len(p.buffer)
		if p.buffer, err = appendValue(p.buffer, s); err != nil {
			return err
		}
		if err := p.note(key, start); err != nil {
			return err
		}
	}
}

var errNotObject = errors.New("it is not a JSON object")

// enter opens an object or array. It returns false, and takes nothing, where the next value is something else, for example null.
func enter(s *jsonscan.Scanner, open byte) bool { return s.Space() == open && s.Open() == nil }

// appendValue appends the next value to dst, without the white space between its parts.
func appendValue(dst []byte, s *jsonscan.Scanner) ([]byte, error) {
	value, spaced, err := s.Skip()
	if spaced {
		return jsonscan.AppendCompact(dst, value), err
	}
	return append(dst, value...), err
}
