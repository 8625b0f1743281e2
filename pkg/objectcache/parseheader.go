// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"bytes"
	"strconv"

	"millwright.dev/pkg/jsonscan"
)

// note takes into the header what of it has just been read: a member of metadata, whose value begins at start.
func (p *parser) note(key []byte, start int) error {
	switch string(key) {
	case `"name"`:
		p.header.name = p.spanOf(start, len(p.buffer))
	case `"namespace"`:
		p.header.namespace = p.spanOf(start, len(p.buffer))
	case `"uid"`:
		p.header.uid = p.spanOf(start, len(p.buffer))
	case `"resourceVersion"`:
		p.header.resourceVersion = p.spanOf(start, len(p.buffer))
	case `"deletionTimestamp"`:
		p.header.deletionTimestamp = p.spanOf(start, len(p.buffer))
	case `"generation"`:
		p.header.generation, _ = strconv.ParseInt(string(p.buffer[start:]), 10, 64) // 0 for what is no generation
	case `"labels"`:
		return p.noteLabels(start)
	case `"ownerReferences"`:
		return p.noteOwner(start)
	}
	return nil
}

// spanOf returns the string between two places of the buffer; an empty one for any other value.
func (p *parser) spanOf(start, end int) span {
	if p.buffer[start] != '"' {
		return span{}
	}
	s := span{start: uint32(start) + 1, size: uint32(end-start) - 2}
	if bytes.IndexByte(p.text(s), '\\') >= 0 {
		s.size |= escaped
	}
	return s
}

func (p *parser) noteLabels(start int) error {
	p.labels = p.labels[:0]
	return p.eachMember(start, func(_ []byte, keyStart, keyEnd, valueStart, valueEnd int) {
		p.labels = append(p.labels, labelSpan{key: p.spanOf(keyStart, keyEnd), value: p.spanOf(valueStart, valueEnd)})
	})
}

// noteOwner finds the controller among the owners.
func (p *parser) noteOwner(start int) error {
	p.header.owner = ownerSpans{}
	s := jsonscan.Scanner{Text: p.buffer, Pos: start}
	if !enter(&s, '[') {
		return nil
	}
	for {
		more, err := s.Next(']')
		if err != nil || !more {
			return err
		}
		var owner ownerSpans
		controller := false
		element := s.Pos
		if err := p.eachMember(element, func(key []byte, _, _, valueStart, valueEnd int) {
			switch string(key) {
			case `"apiVersion"`:
				owner.apiVersion = p.spanOf(valueStart, valueEnd)
			case `"kind"`:
				owner.kind = p.spanOf(valueStart, valueEnd)
			case `"name"`:
				owner.name = p.spanOf(valueStart, valueEnd)
			case `"uid"`:
				owner.uid = p.spanOf(valueStart, valueEnd)
			case `"controller"`:
				controller = string(p.buffer[valueStart:valueEnd]) == "true"
			}
		}); err != nil {
			return err
		}
		if controller {
			p.header.owner = owner
		}
		if _, _, err := s.Skip(); err != nil {
			return err
		}
	}
}

// eachMember calls note for each member of the object that begins at a place of the buffer, if it is one, with the places of its parts.
func (p *parser) eachMember(start int, note func(key []byte, keyStart, keyEnd, valueStart, valueEnd int)) error {
	s := jsonscan.Scanner{Text: p.buffer, Pos: start}
	if !enter(&s, '{') {
		return nil
	}
	for {
		more, err := s.Next('}')
		if err != nil || !more {
			return err
		}
		s.Space()
		keyStart := s.Pos
		key, _, err := s.Key()
		if err != nil {
			return err
		}
		valueStart := s.Pos
		if _, _, err := s.Skip(); err != nil {
			return err
		}
		note(key, keyStart, keyStart+len(key), valueStart, s.Pos)
	}
}
