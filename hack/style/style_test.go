// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The lists of words are in this folder, which is not searched for them.
func planted(name, content string) fstest.MapFS {
	return fstest.MapFS{
		exemptions:         {Data: []byte("# a comment\nwords pkg/exempt # and why\n")},
		name:               {Data: []byte(content)},
		"docs/README.md":   {Data: []byte("# A `title`, of two\n")},
		"bin/README.md":    {Data: []byte("whoever")},
		".git/description": {Data: []byte("whoever")},
	}
}

func TestPlantedExamplesAreFound(t *testing.T) {
	wide := strings.Repeat("a", 100) + "(" + strings.Repeat("b", 100) + ")"
	for _, test := range []struct{ name, file, content, want string }{
		{"word in a comment", "pkg/a.go", "package a\n\n// It Tells.\n", `pkg/a.go:3: words: "Tells": write returns, reports, shows, logs`},
		{"two words", "pkg/a.go", "// so many at once\n", "pkg/a.go:1: words"},
		{"word in a guide", "docs/a.md", "Whoever reads\n", "docs/a.md:1: words"},
		{"word in a manifest", "manifests/a.yaml", "# nobody\n", "manifests/a.yaml:1: words"},
		{"word in a script", ".ci/run", "echo beside\n", ".ci/run:1: words"},
		{"part of a word", "pkg/a.go", "// foretells besides\n", ""},
		{"exempt", "pkg/exempt/a.go", "// told\n", ""},
		{"not exempt", "pkg/exempt2/a.go", "// told\n", "pkg/exempt2/a.go:1: words"},
		{"generated", "pkg/zz_generated.a.go", "// told\n", ""},
		{"wide", "pkg/a.go", wide, "pkg/a.go:1: width: the line has 202 columns, most are 160"},
		{"wide by tabs", "pkg/a.go", strings.Repeat("\t", 20) + strings.Repeat("a", 81), "pkg/a.go:1: width: the line has 161 columns"},
		{"wide by one message", "pkg/a.go", `	fmt.Errorf("` + wide + `")`, ""},
		{"wide but for one message", "pkg/a.go", `	fmt.Errorf("a", ` + wide + ")", "pkg/a.go:1: width"},
		{"wide within a literal", "pkg/a.go", "const a = `\n" + wide + "\n`\n" + wide, "pkg/a.go:4: width"},
		{"long name", "pkg/a_test.go", "func Test" + strings.Repeat("a", 47) + "(t *testing.T) {}", "pkg/a_test.go:1: names: the name of the test has 47"},
		{"name that is not too long", "pkg/a_test.go", "func Fuzz" + strings.Repeat("a", 46) + "(f *testing.F) {}", ""},
		{"limit of kubectl", "pkg/a_test.go", `e.kubectl("wait", "--timeout=30s", "pod/a")`, "pkg/a_test.go:1: limits: a limit of seconds fails"},
		{"limit of kubectl that passes", "pkg/a_test.go", `e.KubectlFails(t, "wait", "--timeout=1s", "pod/a")`, ""},
		{"limit of a wait", "pkg/a_test.go", "wait.PollUntilContextTimeout(ctx, time.Second, 10*time.Second, true, f)", "pkg/a_test.go:1: limits"},
		{"interval of a wait", "pkg/a_test.go", "wait.PollUntilContextTimeout(ctx, time.Second, patience.Limit, true, f)", ""},
		{"limit of a duration", "pkg/a_test.go", "if took > 100*time.Millisecond {", "pkg/a_test.go:1: limits"},
		{"limit of a duration, itself refused", "pkg/a_test.go", "if took >= 100*time.Millisecond {", "pkg/a_test.go:1: limits"},
		{"least duration", "pkg/a_test.go", "if took < 2*time.Second {", ""},
		{"limit in virtual time", "pkg/a_test.go", "import (\n\t\"testing/synctest\"\n)\nif took > time.Second {", ""},
		{"limit in a program", "pkg/a.go", "if took > 10*time.Second {", ""},
		{"link", "a.md", "[a](docs/README.md) [b](docs) [c](https://example.com/a) [d](docs/README.md#a-title-of-two)", ""},
		{"dead link", "a.md", "see [a](docs/none.md)", "a.md:1: links: the link to docs/none.md leads nowhere"},
		{"dead anchor", "a.md", "see [a](docs/README.md#title)", "a.md:1: links: docs/README.md has no heading #title"},
		{"dead anchor of its own", "a.md", "# b\n[a](#a)", "a.md:2: links: a.md has no heading #a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, err := run(planted(test.file, test.content))
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" && len(found) > 0 {
				t.Errorf("found %q, want nothing", found)
			}
			if test.want != "" && !slices.ContainsFunc(found, func(line string) bool { return strings.HasPrefix(line, test.want) }) {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}

func TestInvalidExemptionsAreRefused(t *testing.T) {
	for _, line := range []string{"words", "words a b", "wrods pkg"} {
		if _, err := run(fstest.MapFS{exemptions: {Data: []byte("\n" + line)}}); err == nil || !strings.Contains(err.Error(), exemptions+":2") {
			t.Errorf("%q: error %v", line, err)
		}
	}
	if _, err := run(fstest.MapFS{}); err == nil || !strings.Contains(err.Error(), fs.ErrNotExist.Error()) {
		t.Errorf("without the file: error %v", err)
	}
}
