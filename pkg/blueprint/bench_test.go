// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"strings"
	"testing"
)

func BenchmarkNewRenderer(b *testing.B) {
	params := testParams()
	for b.Loop() {
		if _, err := NewRenderer(params); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkArgsOfATask(b *testing.B) {
	r := renderer(b, testParams())
	args := map[string]any{"image": "img:1", "namespace": "{{ .StatefulSet.Namespace }}", "command": []any{
		"sh", "-c", "kando location push --profile '{{ toJson .Profile }}' --path '/b/{{ .Options.tag }}/{{ .Time }}' -",
	}}
	for b.Loop() {
		if _, err := r.Args("p", Function{}, args); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOutputOfAMegabyteOfLog(b *testing.B) {
	text := []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 10<<10))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := NewOutputReader(func([]byte) {}).Write(text); err != nil {
			b.Fatal(err)
		}
	}
}
