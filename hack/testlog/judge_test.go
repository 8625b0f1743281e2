// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// results parses lines.
func results(t *testing.T, lines ...string) (parsed []result) {
	t.Helper()
	for _, line := range lines {
		r, err := parseResult(line)
		if err != nil {
			t.Fatal(err)
		}
		if r.String() != line {
			t.Fatalf("%q became %q", line, r)
		}
		parsed = append(parsed, r)
	}
	return parsed
}

func TestWhichTestsRunAgain(t *testing.T) {
	for name, test := range map[string]struct {
		results []string
		want    string
		why     string
	}{
		"all passed":     {results: []string{"unit 0.10 pass p TestA", "unit 0.10 skip p TestB"}},
		"one failed":     {results: []string{"unit 0.10 pass p TestA", "unit 0.10 fail p TestB"}, want: "p TestB"},
		"a part failed":  {results: []string{"run 90.00 fail - -"}, want: "run"},
		"a data race":    {results: []string{"unit 0.10 fail p TestA", "unit 0.10 broken p TestB a data race"}, why: "p TestB: a data race"},
		"five failed":    {results: slices.Repeat([]string{"u 1.00 fail p A"}, 5), want: "p A,p A,p A,p A,p A"},
		"six failed":     {results: slices.Repeat([]string{"u 1.00 fail p A"}, 6), why: "6 have failed"},
		"a build failed": {results: []string{"unit 0.00 broken p - it does not compile"}, why: "p: it does not compile"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := again(results(t, test.results...))
			var names []string
			for _, r := range list {
				names = append(names, r.name())
			}
			if got := strings.Join(names, ","); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if (err != nil) != (test.why != "") || err != nil && !strings.Contains(err.Error(), test.why) {
				t.Errorf("got error %v, want %q in it", err, test.why)
			}
		})
	}
}

func TestHowTheRunIsJudged(t *testing.T) {
	first := []string{"unit 0.10 pass p TestA", "unit 0.10 fail p TestB", "unit 0.10 skip p TestC"}
	for name, test := range map[string]struct {
		first, second []string
		want          string
	}{
		"nothing failed":   {first[:1], nil, "1 passed, 0 failed, 0 flaky, 0 skipped\n"},
		"passed again":     {first, []string{"unit 0.10 pass p TestB"}, "FLAKY p TestB: failed, and passed when it ran again, alone\n1 passed, 0 failed, 1 flaky, 1 skipped\n"},
		"failed again":     {first, []string{"unit 0.10 fail p TestB"}, "FAILED p TestB\n1 passed, 1 failed, 0 flaky, 1 skipped\n"},
		"did not run":      {first, nil, "FAILED p TestB\n1 passed, 1 failed, 0 flaky, 1 skipped\n"},
		"skipped again":    {first, []string{"unit 0.10 skip p TestB"}, "FAILED p TestB\n1 passed, 1 failed, 0 flaky, 1 skipped\n"},
		"another part":     {first, []string{"chart 0.10 pass p TestB"}, "FAILED p TestB\n1 passed, 1 failed, 0 flaky, 1 skipped\n"},
		"leaked again":     {first, []string{"unit 0.10 pass p TestB", "unit 0.20 broken p - a leaked goroutine"}, "FAILED p TestB\n1 passed, 1 failed, 0 flaky, 1 skipped\n"},
		"a race":           {[]string{"unit 0.10 broken p TestB a data race"}, []string{"unit 0.10 pass p TestB"}, "FAILED p TestB: a data race\n0 passed, 1 failed, 0 flaky, 0 skipped\n"},
		"a part":           {[]string{"run 90.00 fail - -"}, []string{"run 80.00 pass - -"}, "FLAKY run: failed, and passed when it ran again, alone\n0 passed, 0 failed, 1 flaky, 0 skipped\n"},
		"a part of tests":  {[]string{"e2e 1.00 fail - -"}, []string{"e2e 1.00 pass p A", "e2e 1.00 pass p B"}, "FLAKY e2e: failed, and passed when it ran again, alone\n0 passed, 0 failed, 1 flaky, 0 skipped\n"},
		"a part, one test": {[]string{"e2e 1.00 fail - -"}, []string{"e2e 1.00 pass p A", "e2e 1.00 fail p B"}, "FAILED e2e\n0 passed, 1 failed, 0 flaky, 0 skipped\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(results(t, test.first...), results(t, test.second...)).closing()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhichTestsHaveFailed(t *testing.T) {
	got := selectFailed(results(t,
		"unit 0.10 pass p TestA", "unit 0.10 fail p TestB", "unit 0.10 skip p TestC", "unit 0.10 broken p TestD a data race",
		"unit 0.10 fail q TestB", "unit 0.10 broken q - it does not compile", "chart 0.10 fail p TestB", "run 90.00 fail - -"))
	want := []selection{{"unit", "p", "^(TestB|TestD)$"}, {"unit", "q", "."}, {"chart", "p", "^(TestB)$"}, {"run", "-", "."}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(selection{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInvalidResults(t *testing.T) {
	for _, line := range []string{"", "unit 0.10 pass p", "unit 0.10 well p TestA", "unit x pass p TestA"} {
		if r, err := parseResult(line); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%q became %v, %v", line, r, err)
		}
	}
}

func TestBothOutputsOfAFlakyTestArePrinted(t *testing.T) {
	dir := t.TempDir()
	r := results(t, "unit 0.10 fail example.com/p TestB")[0]
	for ending, content := range map[string]string{failedEnding: strings.Repeat("line\n", mostLines) + "it was late\n", againEnding: "it was in time\n"} {
		if err := os.WriteFile(filepath.Join(dir, r.file()+ending), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	printOutputs(&out, r, dir)
	if got := out.String(); !strings.Contains(got, "it was late\n") || !strings.Contains(got, "it was in time\n") || strings.Count(got, "line\n") > mostLines {
		t.Errorf("printed\n%s", got)
	}
}
