// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"slices"
	"strings"
	"testing"
)

func TestBlockedParents(t *testing.T) {
	b := newBlockedParents()
	one, two, gone := Key{Name: "one"}, Key{Name: "two"}, Key{Name: "gone"}
	at := location{0, "ns", "a"}
	for _, parent := range []Key{one, two, gone, one} {
		b.block(at, parent)
	}
	b.block(location{1, "ns", "a"}, gone)
	b.forget(gone)
	if len(b.by) != 1 {
		t.Errorf("places are %v, want the one where a parent is left", b.by)
	}
	if parents := b.unblock(location{0, "other", "a"}); len(parents) > 0 {
		t.Errorf("%v are blocked by another object", parents)
	}
	parents := b.unblock(at)
	slices.SortFunc(parents, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	if !slices.Equal(parents, []Key{one, two}) {
		t.Errorf("%v were blocked, want one and two", parents)
	}
	if parents := b.unblock(at); len(parents) > 0 || len(b.by) > 0 {
		t.Errorf("%v are still blocked", parents)
	}
}
