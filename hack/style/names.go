// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// maxName is how long the name of a test may be, in characters, without Test, Fuzz or Benchmark: people type it after -run.
const maxName = 46

var testFunction = regexp.MustCompile(`^func (?:Test|Fuzz|Benchmark)(\w*)\(`)

// findLongNames returns the tests with names that are longer than maxName.
func findLongNames(_ fs.FS, _ string, lines []string) (found []finding) {
	for i, line := range lines {
		match := testFunction.FindStringSubmatch(line)
		if match != nil && len(match[1]) > maxName {
			found = append(found, finding{line: i + 1, text: fmt.Sprintf("the name of the test has %d characters, most are %d", len(match[1]), maxName)})
		}
	}
	return found
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }
