// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// limits match a wait that ends after seconds, or a duration that is refused for being longer than seconds.
var limits = []*regexp.Regexp{
	regexp.MustCompile(`"--timeout=[0-9]+m?s"`),
	regexp.MustCompile(`PollUntilContextTimeout\([^,]*,[^,]*, *([0-9]+ ?\* ?)?time\.(Millis|S)econd`),
	regexp.MustCompile(`\b(took|lasted|longest|waited|Since\(\w+\)) ?>=? ?([0-9]+ ?\* ?)?time\.(Millis|S)econd`),
}

// findLimits returns the lines of a test with a limit of seconds, which fails on a busy machine. It does not in virtual time, and a command that is
// to fail may be given little time.
func findLimits(_ fs.FS, _ string, lines []string) (found []finding) {
	if slices.ContainsFunc(lines, func(line string) bool { return strings.HasSuffix(line, `"testing/synctest"`) }) {
		return nil
	}
	for i, line := range lines {
		if strings.Contains(line, "Fails(") || !slices.ContainsFunc(limits, func(limit *regexp.Regexp) bool { return limit.MatchString(line) }) {
			continue
		}
		text := "a limit of seconds fails on a busy machine: end a wait by patience.Limit, and compare counts or order, not durations"
		found = append(found, finding{line: i + 1, text: text})
	}
	return found
}
