// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// doubling returns a value that names the value before it twice, n times.
func doubling(n int) string {
	text := "x0: &a0 [1]\n"
	for i := range n {
		text += fmt.Sprintf("x%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	return text
}

func TestAliases(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
	large := "a: &a " + strings.Repeat("x", 100_000) + "\n"
	const tooLong = "the document has more than 1572864 bytes with all aliases (*) written out"
	for name, test := range map[string]struct{ text, want string }{
		"few":                  {object + "data: &d {a: b}\nother: *d\nmerged: {<<: *d, e: f}\n", ""},
		"just as long":         {object + large + "b: [" + strings.Repeat("*a,", 14) + "]\n", ""},
		"a large text often":   {object + large + "b: [" + strings.Repeat("*a,", 10_000) + "]\n", tooLong},
		"doubling":             {object + doubling(20), tooLong},
		"doubling beyond ints": {object + doubling(1000), tooLong},
		"a cycle":              {object + "a: &a [*a]\n", tooLong},
		"merged often":         {object + "a: &a {b: " + strings.Repeat("x", 100_000) + "}\nc: [" + strings.Repeat("{<<: *a},", 10_000) + "]\n", tooLong},
		"as a key":             {object + large + "b: [" + strings.Repeat("{? *a : 1},", 10_000) + "]\n", tooLong},
		"in the second one":    {object + "---\n" + object + large + "b: [" + strings.Repeat("*a,", 10_000) + "]\n", tooLong},
		"in each one":          {strings.Repeat(object+large+"b: ["+strings.Repeat("*a,", 10)+"]\n---\n", 5), ""},
		"in many":              {strings.Repeat(object+large+"b: ["+strings.Repeat("*a,", 10)+"]\n---\n", 10), "the spec takes more than 8388608 bytes of memory when it is read"},
		"in a script":          {object + "data:\n  run: |\n    ls * && rm -f &\n    echo *a\n", ""},
		"in JSON":              {`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"& *a","b":"*"}}`, ""},
		"of nothing":           {object + "a: &b 1\nc: *a\n", "unknown anchor 'a' referenced"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := manifests(t.Context(), test.text)
			runtime.ReadMemStats(&after)
			message, _ := phase.FailureOf(err)
			if (message == "") != (test.want == "") || !strings.Contains(message, test.want) || err != nil && message == "" {
				t.Errorf("manifests: got error %v, want %q", err, test.want)
			}
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 200 {
				t.Errorf("%d bytes of text take %d MiB", len(test.text), allocated)
			}
			if test.want == tooLong {
				_, err := patchOf(t.Context(), test.text, "", target{})
				if message, _ := phase.FailureOf(err); !strings.Contains(message, "reading the spec of the patch: "+tooLong) {
					t.Errorf("patchOf: got error %v, want %q", err, tooLong)
				}
			}
		})
	}
}

// Few specs are read at a time: one waits for its turn, and stops when the run does. A small one without aliases does not wait.
func TestSpecWaitsForTurn(t *testing.T) {
	for range 2 {
		done, err := blueprint.NewBudget(t.Context()).Turn(false)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	small := "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"
	for _, text := range []string{small + " #*", small + strings.Repeat(" ", smallSpec)} {
		if _, err := manifests(ctx, text); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want that it was not read", err)
		}
	}
	if objects, err := manifests(t.Context(), small); err != nil || len(objects) != 1 {
		t.Errorf("a small one: got %d objects, %v", len(objects), err)
	}
}

// A spec of many small values takes many times the memory of its text.
func TestSpecTooLarge(t *testing.T) {
	text := "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, a: [" + strings.Repeat("{},", 300_000) + "1]}"
	_, err := manifests(t.Context(), text)
	want := "the spec takes more than 8388608 bytes of memory when it is read: divide it among several phases"
	if message, _ := phase.FailureOf(err); message != want {
		t.Errorf("got error %v, want %q", err, want)
	}
}
