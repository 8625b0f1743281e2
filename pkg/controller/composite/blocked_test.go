// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"slices"
	"strings"
	"testing"
)

func TestParentsAreBlockedUntilTheObjectGoesOrTheyDo(t *testing.T) {
	b := newBlocked()
	one, two, gone := key{name: "one"}, key{name: "two"}, key{name: "gone"}
	at := place{0, "ns", "a"}
	for _, parent := range []key{one, two, gone, one} {
		b.add(at, parent)
	}
	b.add(place{1, "ns", "a"}, gone)
	b.forget(gone)
	if len(b.parents) != 1 {
		t.Errorf("places are %v, want the one where a parent is left", b.parents)
	}
	if parents := b.freed(place{0, "other", "a"}); len(parents) > 0 {
		t.Errorf("%v are blocked by another object", parents)
	}
	parents := b.freed(at)
	slices.SortFunc(parents, func(a, b key) int { return strings.Compare(a.name, b.name) })
	if !slices.Equal(parents, []key{one, two}) {
		t.Errorf("%v were blocked, want one and two", parents)
	}
	if parents := b.freed(at); len(parents) > 0 || len(b.parents) > 0 {
		t.Errorf("%v are still blocked", parents)
	}
}
