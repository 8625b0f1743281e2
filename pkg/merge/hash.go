// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package merge

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"millwright.dev/pkg/jsonscan"
)

// seed is random for each process: the author of a JSON text cannot predict which other text has the same hash.
var seed = maphash.MakeSeed()

// Hash returns a hash of one JSON value, such as a desired object in the answer of a hook. It does not depend on the order of
// keys nor on white space. Equal hashes mean equal values. Equal values in different notations (1.0 and 1, or a letter and its
// escape) may have different hashes.
//
// The hash is valid within this process only: it must not be stored. An error is returned for text that is not JSON, or has more than
// 10,000 levels of nesting.
func Hash(text []byte) (uint64, error) {
	h := hashers.Get().(*hasher)
	defer h.release()
	h.Scanner = jsonscan.Scanner{Text: text}
	sum, err := h.value()
	if err == nil {
		err = h.End()
	}
	if err != nil {
		return 0, fmt.Errorf("hashing JSON: %w", err)
	}
	return sum, nil
}

// hasher reads JSON in place. It allocates nothing once its stack has grown.
type hasher struct {
	jsonscan.Scanner
	// members is a stack: the members of the innermost object or list are on top.
	members []member
	sums    []byte
}

// member holds the hashes of one key of an object and of its value. An element of a list has no key.
type member struct{ key, value uint64 }

var hashers = sync.Pool{New: func() any { return &hasher{} }}

// maxPooledMembers bounds the stack of a hasher that is kept for reuse.
const maxPooledMembers = 1 << 16

func (h *hasher) release() {
	if cap(h.members) > maxPooledMembers {
		return
	}
	h.Scanner, h.members = jsonscan.Scanner{}, h.members[:0]
	hashers.Put(h)
}

func (h *hasher) value() (uint64, error) {
	switch h.Space() {
	case '{':
		return h.object()
	case '[':
		return h.list()
	default:
		text, err := h.Scalar()
		return maphash.Bytes(seed, text), err
	}
}

func (h *hasher) object() (uint64, error) {
	if err := h.Open(); err != nil {
		return 0, err
	}
	bottom := len(h.members)
	for {
		more, err := h.Next('}')
		if err != nil {
			return 0, err
		}
		if !more {
			// The order of duplicate keys counts: decoders take the last.
			slices.SortStableFunc(h.members[bottom:], func(a, b member) int { return cmp.Compare(a.key, b.key) })
			return h.sum('{', bottom), nil
		}
		key, err := h.key()
		if err != nil {
			return 0, err
		}
		value, err := h.value()
		if err != nil {
			return 0, err
		}
		h.members = append(h.members, member{key, value})
	}
}

func (h *hasher) list() (uint64, error) {
	if err := h.Open(); err != nil {
		return 0, err
	}
	bottom := len(h.members)
	for {
		more, err := h.Next(']')
		if err != nil {
			return 0, err
		}
		if !more {
			return h.sum('[', bottom), nil
		}
		element, err := h.value()
		if err != nil {
			return 0, err
		}
		h.members = append(h.members, member{value: element})
	}
}

// sum takes the members of an object, or the elements of a list, from the stack and returns their hash.
func (h *hasher) sum(kind byte, bottom int) uint64 {
	h.sums = append(h.sums[:0], kind)
	for _, m := range h.members[bottom:] {
		h.sums = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(h.sums, m.key), m.value)
	}
	h.members = h.members[:bottom]
	return maphash.Bytes(seed, h.sums)
}

// key returns the hash of a key in its plainest notation: duplicate keys must be recognized in any notation.
func (h *hasher) key() (uint64, error) {
	quoted, plain, err := h.Key()
	if err != nil {
		return 0, err
	}
	key, err := jsonscan.Unquote(quoted, plain)
	return maphash.Bytes(seed, key), err
}

// HashTree returns a hash of a tree of nil, bool, int64, float64, string, []any and map[string]any. Equal hashes mean equal trees: null, an
// empty value and no value are different. It cannot be compared with the [Hash] of a text, and is valid within this process only.
func HashTree(tree any) uint64 {
	h := hashers.Get().(*hasher)
	defer h.release()
	return h.tree(tree)
}

func (h *hasher) tree(tree any) uint64 {
	bottom := len(h.members)
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			value := h.tree(value)
			h.members = append(h.members, member{maphash.String(seed, key), value})
		}
		slices.SortFunc(h.members[bottom:], func(a, b member) int { return cmp.Compare(a.key, b.key) })
		return h.sum('{', bottom)
	case []any:
		for _, element := range tree {
			value := h.tree(element)
			h.members = append(h.members, member{value: value})
		}
		return h.sum('[', bottom)
	default:
		return maphash.Comparable(seed, tree)
	}
}
