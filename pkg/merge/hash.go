// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
)

// seed is random in each process: the author of the JSON cannot make two texts of one hash.
var seed = maphash.MakeSeed()

// errNotJSON is returned, with the place, for bytes that are no JSON value.
var errNotJSON = errors.New("this is not JSON")

// Hash returns a hash of one JSON value, such as a desired object in the answer of a hook. It does not depend on the order of
// the keys, nor on spaces. Equal hashes mean equal values. Values that are equal and written otherwise (1.0 and 1, or a letter
// and its escape) may have different hashes.
//
// It means nothing in another process: it is for remembering, not for storing. An error is returned for what is not JSON, or is
// deeper than 10,000 levels.
func Hash(text []byte) (uint64, error) {
	h := hashers.Get().(*hasher)
	defer h.release()
	h.text = text
	h.space()
	sum, err := h.value(0)
	if err == nil {
		if h.space(); h.at < len(h.text) {
			err = errNotJSON
		}
	}
	if err != nil {
		return 0, fmt.Errorf("hashing JSON, at byte %d: %w", h.at, err)
	}
	return sum, nil
}

// hasher reads JSON where it stands. It allocates nothing once its stack has grown.
type hasher struct {
	text []byte
	at   int
	// members is a stack: those of the object or list being read are on top.
	members []member
	sums    []byte
}

// member is one key of an object with its value, by their hashes. An element of a list has no key.
type member struct{ key, value uint64 }

var hashers = sync.Pool{New: func() any { return &hasher{} }}

// maxPooledMembers bounds what is kept for later.
const maxPooledMembers = 1 << 16

func (h *hasher) release() {
	if cap(h.members) > maxPooledMembers {
		return
	}
	h.text, h.at, h.members = nil, 0, h.members[:0]
	hashers.Put(h)
}

func (h *hasher) value(depth int) (uint64, error) {
	switch c := h.peek(); {
	case depth >= maxDepth && (c == '{' || c == '['):
		return 0, fmt.Errorf("more than %d objects and lists are in one another", maxDepth)
	case c == '{':
		return h.object(depth)
	case c == '[':
		return h.list(depth)
	case c == '"':
		token, _, err := h.string()
		return maphash.Bytes(seed, token), err
	default:
		token, err := h.word()
		return maphash.Bytes(seed, token), err
	}
}

func (h *hasher) object(depth int) (uint64, error) {
	bottom := len(h.members)
	h.at++
	for h.space(); !h.take('}'); {
		if len(h.members) > bottom && !h.take(',') {
			return 0, errNotJSON
		}
		h.space()
		key, err := h.key()
		if err != nil {
			return 0, err
		}
		h.space()
		if !h.take(':') {
			return 0, errNotJSON
		}
		h.space()
		value, err := h.value(depth + 1)
		if err != nil {
			return 0, err
		}
		h.members = append(h.members, member{key, value})
		h.space()
	}
	// Where a key comes twice its order counts: decoders take the last.
	slices.SortStableFunc(h.members[bottom:], func(a, b member) int { return cmp.Compare(a.key, b.key) })
	return h.close('{', bottom), nil
}

func (h *hasher) list(depth int) (uint64, error) {
	bottom := len(h.members)
	h.at++
	for h.space(); !h.take(']'); {
		if len(h.members) > bottom && !h.take(',') {
			return 0, errNotJSON
		}
		h.space()
		element, err := h.value(depth + 1)
		if err != nil {
			return 0, err
		}
		h.members = append(h.members, member{value: element})
		h.space()
	}
	return h.close('[', bottom), nil
}

// close takes the members of an object, or the elements of a list, from the stack and returns the hash of them all.
func (h *hasher) close(kind byte, bottom int) uint64 {
	h.sums = append(h.sums[:0], kind)
	for _, m := range h.members[bottom:] {
		h.sums = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(h.sums, m.key), m.value)
	}
	h.members = h.members[:bottom]
	return maphash.Bytes(seed, h.sums)
}

// key reads a key. Its escapes are resolved: one that comes twice must be recognized in any spelling.
func (h *hasher) key() (uint64, error) {
	if h.peek() != '"' {
		return 0, errNotJSON
	}
	token, plain, err := h.string()
	if err != nil {
		return 0, err
	}
	if !plain {
		var key string
		err := json.Unmarshal(token, &key)
		return maphash.String(seed, key), err
	}
	return maphash.Bytes(seed, token[1:len(token)-1]), nil
}
