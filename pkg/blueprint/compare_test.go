// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"strings"
	"testing"
	"text/template"
)

func TestComparisonsAreThoseOfTheEngine(t *testing.T) {
	data := map[string]any{
		"values": []any{
			nil, true, false, 0, 1, -1, int64(1), uint(1), uint64(1 << 63), uint8(0), 1.0, 1.5, float32(1), "", "a", "b", []any{}, []any(nil), []any{1},
			map[string]any{}, map[string]any(nil), map[string]any{"a": 1}, Reference{Name: "a"}, Reference{Name: "a"}, &Reference{}, (*Reference)(nil),
			map[string]int{"a": 7}, []string{"x"}, [2]int{3, 4},
		},
	}
	ours := template.New("ours").Funcs(comparisons(NewBudget(t.Context())))
	engine := template.New("engine")
	run := func(in *template.Template, source string, i, j int) string {
		parsed := template.Must(template.Must(in.Clone()).Parse(source))
		var out strings.Builder
		data["i"], data["j"] = i, j
		err := parsed.Execute(&out, data)
		if err == nil {
			return out.String()
		}
		// The engine shows values in some of its errors.
		text := err.Error()
		for _, known := range []string{"non-comparable", "index out of range"} {
			if strings.Contains(text, known) {
				return known
			}
		}
		return text[strings.LastIndex(text, ">: "):]
	}
	count := len(data["values"].([]any))
	for _, does := range []string{
		"eq $a $b", "eq $a $b 1", "ne $a $b", "lt $a $b", "le $a $b", "gt $a $b", "ge $a $b", "eq $a nil", "index $a $b", "index $a", "index $a $b $b", "eq $a",
	} {
		for i := range count {
			for j := range count {
				// The values are taken by range: index is under test.
				source := `{{ $a := 0 }}{{ $b := 0 }}` +
					`{{ range $n, $v := .values }}{{ if _is $n $.i }}{{ $a = $v }}{{ end }}{{ if _is $n $.j }}{{ $b = $v }}{{ end }}{{ end }}{{ ` + does + ` }}`
				is := template.FuncMap{"_is": func(a, b int) bool { return a == b }}
				got, want := run(ours.Funcs(is), source, i, j), run(engine.Funcs(is), source, i, j)
				if got != want {
					t.Errorf("%s of %#v and %#v gives %q, the engine %q", does, data["values"].([]any)[i], data["values"].([]any)[j], got, want)
				}
			}
		}
	}
}
