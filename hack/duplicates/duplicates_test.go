// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// body returns a function of a number of lines, which differ by the prefix from those of others.
func body(prefix string, lines int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "func %s() {\n", prefix)
	for i := range lines {
		fmt.Fprintf(&b, "\t%s%d()\n", prefix, i)
	}
	return b.String() + "}\n"
}

func file(text string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("// A header\n\npackage a\n\nimport (\n\t\"fmt\"\n)\n\n" + text)}
}

func TestPlantedPairsAreFound(t *testing.T) {
	for _, test := range []struct {
		name, other  string
		ours, theirs string
		want         []string
	}{
		{"eleven lines", "pkg/controller/b/y.go", body("one", 3) + body("same", 10), body("same", 10) + body("two", 3),
			[]string{"pkg/controller/a/x.go:14 and pkg/controller/b/y.go:9: 12 equal lines"}},
		{"ten lines", "pkg/controller/b/y.go", body("same", 9), body("same", 9), []string{"pkg/controller/a/x.go:9 and pkg/controller/b/y.go:9: 11 equal lines"}},
		{"nine lines", "pkg/controller/b/y.go", body("same", 8), body("same", 8), nil},
		{"indented, with comments", "pkg/controller/b/y.go", body("same", 9), strings.ReplaceAll(body("same", 9), "\t", "\t\t// Why.\n\n\t\t\t"),
			[]string{"pkg/controller/a/x.go:9 and pkg/controller/b/y.go:9: 11 equal lines"}},
		{"lines without letters", "pkg/controller/b/y.go", body("same", 8) + "var _ = []int{\n1,\n}\n", body("same", 8) + "var x = []int{\n1,\n}\n", nil},
		{"the same kind", "pkg/controller/a/y.go", body("same", 10), body("same", 10), nil},
		{"what kinds share", "pkg/controller/y.go", body("same", 10), body("same", 10), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			pairs, err := run(fstest.MapFS{"pkg/controller/a/x.go": file(test.ours), test.other: file(test.theirs)})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(pairs, test.want) {
				t.Errorf("found %q, want %q", pairs, test.want)
			}
		})
	}
}
