// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// mostAgain is how many tests are run again. More failures have another cause than chance.
	mostAgain = 5
	// mostLines is how many lines of the output of a flaky test are printed.
	mostLines = 200
	// slowest is how many of the slowest tests are printed.
	slowest = 10
)

// again returns the failed tests that are run once more. Its error explains why none is, although tests have failed.
func again(results []result) ([]result, error) {
	var never []string
	var list []result
	for _, r := range results {
		switch r.verdict {
		case broken:
			never = append(never, fmt.Sprintf("  %s: %s", r.name(), r.reason))
		case failed:
			list = append(list, r)
		}
	}
	if len(never) > 0 {
		return nil, fmt.Errorf("no test is run again, because these failures depend on no chance:\n%s", strings.Join(never, "\n"))
	}
	if len(list) > mostAgain {
		return nil, fmt.Errorf("no test is run again: %d have failed, and %d are the most that chance excuses", len(list), mostAgain)
	}
	return list, nil
}

// selection is tests of one package, or a part.
type selection struct{ part, pkg, pattern string }

// selectFailed returns the tests that failed, all of a package where it failed as a whole.
func selectFailed(results []result) (list []selection) {
	names := map[selection][]string{}
	for _, r := range results {
		if r.verdict != failed && r.verdict != broken {
			continue
		}
		key := selection{part: r.part, pkg: r.pkg}
		if names[key] == nil {
			list = append(list, key)
		}
		names[key] = append(names[key], r.test)
	}
	for i, key := range list {
		list[i].pattern = "^(" + strings.Join(names[key], "|") + ")$"
		if slices.Contains(names[key], whole) {
			list[i].pattern = "."
		}
	}
	return list
}

// summary is what became of all tests.
type summary struct {
	passed, skipped int
	// flaky tests have failed, and passed when they ran again.
	flaky, failed []result
}

// judge judges the results by those of the tests that were run again.
func judge(first, second []result) (s summary) {
	for _, r := range first {
		switch r.verdict {
		case passed:
			s.passed++
		case skipped:
			s.skipped++
		case failed, broken:
			if r.verdict == failed && passedAgain(r, second) {
				s.flaky = append(s.flaky, r)
			} else {
				s.failed = append(s.failed, r)
			}
		}
	}
	return s
}

// passedAgain reports whether the test, or the part, has passed when it ran again, and nothing of that run has failed.
func passedAgain(r result, second []result) bool {
	good := false
	for _, other := range second {
		if other.part != r.part || r.pkg != whole && (other.pkg != r.pkg || other.test != r.test && other.test != whole) {
			continue
		}
		switch other.verdict {
		case passed:
			good = true
		case failed, broken:
			return false
		}
	}
	return good
}

// closing returns the last lines: the flaky and the failed tests, and the counts.
func (s summary) closing() string {
	var text strings.Builder
	for _, r := range s.flaky {
		fmt.Fprintf(&text, "FLAKY %s: failed, and passed when it ran again, alone\n", r.name())
	}
	for _, r := range s.failed {
		fmt.Fprintf(&text, "FAILED %s%s\n", r.name(), strings.TrimSuffix(": "+r.reason, ": "))
	}
	fmt.Fprintf(&text, "%d passed, %d failed, %d flaky, %d skipped\n", s.passed, len(s.failed), len(s.flaky), s.skipped)
	return text.String()
}

func printSlowest(out io.Writer, results []result) {
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintln(out, "== slowest tests")
	for _, r := range results[:min(slowest, len(results))] {
		fmt.Fprintf(out, "%6.0f s  %s\n", r.seconds, r.name())
	}
}

// printOutputs prints both outputs of a flaky test.
func printOutputs(out io.Writer, r result, folder string) {
	for _, output := range []struct{ what, ending string }{{"failed", failedEnding}, {"passed when it ran again", againEnding}} {
		name := filepath.Join(folder, r.file()+output.ending)
		fmt.Fprintf(out, "== flaky: %s %s; all of its output is in %s\n", r.name(), output.what, name)
		content, err := os.ReadFile(name)
		if err != nil {
			fmt.Fprintln(out, err)
			continue
		}
		lines := strings.SplitAfter(string(content), "\n")
		for _, line := range lines[max(0, len(lines)-mostLines):] {
			fmt.Fprint(out, line)
		}
	}
}
