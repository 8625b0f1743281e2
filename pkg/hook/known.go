// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"hash/maphash"
	"slices"
)

// Known is what the decoding of an answer leaves for that of the next answer about the same parent by the same rules: children whose text is equal are not
// decoded again. It has no text of an answer, but the names and labels of the children. The zero value knows nothing.
type Known struct {
	children []Child
	// size and sum are those of the text of the list, and from is where each child begins in it.
	size int
	sum  uint64
	from []int
}

// recall returns the children if a text begins with that of their list. Their JSON is that in the text then: the children of the earlier answer must not be
// used any more.
func (k *Known) recall(text []byte) (children []Child, known bool) {
	if k.size == 0 || len(text) < k.size || maphash.Bytes(sumSeed, text[:k.size]) != k.sum {
		return nil, false
	}
	for i := range k.children {
		child := &k.children[i]
		to := k.from[i] + len(child.JSON)
		child.JSON = text[k.from[i]:to:to]
	}
	return k.children, true
}

// knownOf returns what is known after children were decoded that begin at these places of the text of their list.
func knownOf(text []byte, children []Child, from []int) Known {
	return Known{slices.Clip(children), len(text), maphash.Bytes(sumSeed, text), from}
}
