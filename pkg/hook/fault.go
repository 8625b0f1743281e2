// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"slices"
	"strings"
)

// fault is that a value is not as it must be. The way to it is found out while the error goes up, so that it costs nothing
// where there is none.
type fault struct {
	reason Reason
	// path has the members of objects and elements of arrays that lead to the value, the innermost first.
	path []string
	text string
}

// shownPath is how many members of a path are shown.
const shownPath = 12

func (f *fault) Error() string {
	if len(f.path) == 0 {
		return shorten(f.text)
	}
	var path strings.Builder
	for i, member := range slices.Backward(f.path) {
		if len(f.path)-i > shownPath {
			path.WriteString("...")
			break
		}
		if path.Len() > 0 && !strings.HasPrefix(member, "[") {
			path.WriteByte('.')
		}
		path.WriteString(member)
	}
	return shorten(path.String() + " " + f.text)
}

// within adds the member or element that a fault is in to its path.
func within(err error, member string) error {
	if f, ok := err.(*fault); ok {
		f.path = append(f.path, member)
	}
	return err
}
