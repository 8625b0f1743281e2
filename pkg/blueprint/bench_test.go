// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func BenchmarkNewRenderer(b *testing.B) {
	params := testParams()
	for b.Loop() {
		if _, err := NewRenderer(NewBudget(b.Context()), params); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkArgsOfATask(b *testing.B) {
	args := map[string]any{"image": "img:1", "namespace": "{{ .StatefulSet.Namespace }}", "command": []any{
		"sh", "-c", "kando location push --profile '{{ toJson .Profile }}' --path '/b/{{ .Options.tag }}/{{ .Time }}' -",
	}}
	for b.Loop() {
		if _, err := renderer(b, testParams()).Args("p", Function{}, args); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOutputOfAMegabyteOfLog(b *testing.B) {
	text := []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 10<<10))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := NewOutputs(b.Context(), granted).Reader(0, func([]byte) {}).Write(text); err != nil {
			b.Fatal(err)
		}
	}
}

// A budget is to last for about 200 ms at most on a slow machine: ms/op, and what the worst unit takes.
func BenchmarkTheMostExpensiveTemplates(b *testing.B) {
	for _, does := range slices.Sorted(maps.Keys(bombs)) {
		b.Run(does, func(b *testing.B) {
			budget := NewBudget(b.Context())
			for b.Loop() {
				budget = NewBudget(b.Context())
				r, err := NewRenderer(budget, testParams())
				if err != nil {
					b.Fatal(err)
				}
				_, _ = r.Args("p", Function{}, map[string]any{"a": bombs[does].source})
			}
			b.ReportMetric(budget.Spent(), "budgets")
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms")
		})
	}
}
