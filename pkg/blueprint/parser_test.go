// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"strings"
	"testing"
	"text/template"
)

// Templates share their functions, and nothing else: what one of them has defined does not exist in the next one.
func TestTemplatesShareNoDefinitions(t *testing.T) {
	b := NewBudget(t.Context())
	e := newEngine(b, "error", func() template.FuncMap { return charged(template.FuncMap{}, b) })
	for _, each := range []struct{ source, want, err string }{
		{`{{ print "a" }}`, "a", ""},
		{` {{/* without a value */}} `, "  ", ""},
		{`{{ print "b" }}`, "b", ""},
		{`{{ define "x" }}first{{ end }}{{ template "x" }}`, "first", ""},
		{`{{ template "x" }}`, "", `"x" not defined`},
		{`{{ block "x" . }}second{{ end }}`, "second", ""},
		{`{{ define "t" }}itself{{ end }}`, "itself", ""},
		{` {{/* without a value */}} `, "  ", ""},
		{`{{ nothing }}`, "", `there is no function "nothing"`},
		{`{{ template "x" }}`, "", `"x" not defined`},
		{`{{ print "c" }}`, "c", ""},
		{`{{ template "t" }}`, "", errNesting.Error()},
	} {
		got, err := e.execute("c", each.source, nil)
		if got != each.want || (err == nil) != (each.err == "") || err != nil && !strings.Contains(err.Error(), each.err) {
			t.Errorf("%s gives %q, %v; want %q, %s", each.source, got, err, each.want, each.err)
		}
	}
}
