// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestAHostileTemplateEndsSoonAndSmall(t *testing.T) {
	deep := func(open, shut string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n) }
	for does, test := range map[string]struct {
		source string
		limit  error
	}{
		"a loop over a huge number":         {`{{ range 1000000000000 }}{{ end }}`, errWork},
		"nested loops":                      {`{{ range 100000 }}{{ range 100000 }}{{ end }}{{ end }}`, errWork},
		"a loop that only continues":        {`{{ range 1000000000000 }}{{ continue }}{{ end }}`, errWork},
		"a loop inside an else":             {`{{ if false }}{{ else }}{{ with 1 }}{{ range 1000000000000 }}{{ end }}{{ end }}{{ end }}`, errWork},
		"a template that calls itself":      {`{{ define "x" }}{{ template "x" . }}{{ end }}{{ template "x" . }}`, errWork},
		"templates that call twice":         {`{{ define "x" }}{{ template "x" . }}{{ template "x" . }}{{ end }}{{ template "x" . }}`, errWork},
		"a huge repetition":                 {`{{ repeat 1000000000 "x" }}`, errWork},
		"repeated repetitions":              {`{{ repeat 4000 (repeat 4000 "xx") }}`, errWork},
		"a huge until":                      {`{{ until 1000000000 }}`, errWork},
		"a huge untilStep":                  {`{{ untilStep 0 1000000000 1 }}`, errWork},
		"a huge untilStep downwards":        {`{{ untilStep 0 -1000000000 -1 }}`, errWork},
		"a huge seq":                        {`{{ seq 1 1000000000 }}`, errWork},
		"a huge width":                      {`{{ printf "` + strings.Repeat("%999999d", 100) + `" 1 }}`, errWork},
		"a huge width as an argument":       {`{{ printf "` + strings.Repeat("%*d", 100) + `" 999999 1 }}`, errWork},
		"a huge indentation":                {`{{ indent 1000000000 "x" }}`, errWork},
		"a replacement that grows":          {`{{ $x := repeat 100000 "x" }}{{ replace "x" $x $x }}`, errWork},
		"a separator that grows":            {`{{ join (repeat 100000 "x") (until 1000) }}`, errWork},
		"a regular expression that grows":   {`{{ $x := repeat 100000 "x" }}{{ regexReplaceAll "x" $x $x }}`, errWork},
		"a comparison of each with each":    {`{{ uniq (until 1000000) }}`, errWork},
		"a text that doubles":               {`{{ $x := "x" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}`, errWork},
		"a list that doubles":               {`{{ $x := list 1 }}{{ range 60 }}{{ $x = list $x $x }}{{ end }}{{ $x }}`, errWork},
		"a map that contains itself":        {`{{ $x := dict }}{{ $_ := set $x "x" $x }}{{ $x }}`, errDepth},
		"a map that contains itself twice":  {`{{ $x := dict }}{{ $_ := set $x "x" (list $x $x) }}{{ $x }}`, errDepth},
		"a merge that contains itself":      {`{{ $x := dict }}{{ $y := merge $x (dict "x" $x) }}{{ $y }}`, errDepth},
		"an object that contains the root":  {`{{ $x := set .Phases.dump.Output "x" .Phases }}{{ $x }}`, errDepth},
		"JSON without an end":               {`{{ fromJson "` + deep("[", "]", 9000) + `" }}`, errDepth},
		"output without an end":             {`{{ $x := repeat 100000 "x" }}{{ range 100 }}{{ $x }}{{ end }}`, errOutput},
		"output of text, without functions": {`{{ range 10000 }}` + strings.Repeat("x", 1000) + `{{ end }}`, errOutput},
		"parentheses without an end":        {`{{ ` + deep("(", ")", 60000) + ` }}`, nil},
		"blocks without an end":             {deep("{{if 1}}", "{{end}}", 8000), nil},
		"a source that is too long":         {`{{ 1 }}` + strings.Repeat("x", maxSource), nil},
		"an html text without an end":       {`{{ $x := repeat 100000 "<" }}{{ range 1000 }}{{ $x = html $x }}{{ end }}`, errWork},
	} {
		t.Run(does, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			got, err := render(t, testParams(), test.source)
			runtime.ReadMemStats(&after)
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 256 {
				t.Errorf("it took %d MiB", used)
			}
			if len(got) > maxOutput {
				t.Errorf("it gave %d bytes", len(got))
			}
			if test.limit != nil && !errors.Is(err, test.limit) {
				t.Errorf("the error is %v, want %v", err, test.limit)
			}
		})
	}
}

func TestTheLimitsAreForAllArgumentsTogether(t *testing.T) {
	args := []any{}
	for range 100 {
		args = append(args, `{{ repeat 50000 "x" }}`)
	}
	if _, err := renderer(t, testParams()).Args("p", Function{}, map[string]any{"a": args}); !errors.Is(err, errOutput) {
		t.Errorf("the error is %v", err)
	}
}

func TestALimitThatWasReachedDoesNotOutliveTheCall(t *testing.T) {
	r := renderer(t, testParams())
	if _, err := r.Args("p", Function{}, map[string]any{"a": `{{ range 1000000000 }}{{ end }}`}); !errors.Is(err, errWork) {
		t.Fatalf("the error is %v", err)
	}
	if _, err := r.Args("p", Function{}, map[string]any{"a": `{{ upper "x" }}`}); err != nil {
		t.Error(err)
	}
}

func TestALargeHonestTemplateIsRendered(t *testing.T) {
	source := `{{ range $i := until 1000 }}{{ printf "%d: %s\n" $i (replace "a" "b" "banana") }}{{ end }}` + strings.Repeat("# a long script\n", 4000)
	got, err := render(t, testParams(), source)
	if err != nil || !strings.Contains(got, "999: bbnbnb") {
		t.Error(err)
	}
}
