// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// words must not come back: the word, and what to write instead. The terms of the field are in the glossary of pkg/README.md.
var words = map[string]string{
	"told":     "returned, reported, logged; or make the sentence active",
	"tells":    "returns, reports, shows, logs",
	"nobody":   "no client, no user, not found",
	"somebody": "another client, a user",
	"whoever":  "the user who, the process that",
	"anew":     "again",
	"beside":   "next to, in addition to",
	"so many":  "N, that number of",
	"at once":  "immediately; concurrently",
}

var wordsPattern = regexp.MustCompile(`(?i)\b(` + strings.Join(slices.Sorted(maps.Keys(words)), "|") + `)\b`)

// findWords returns the words of the list, whatever their case.
func findWords(_ fs.FS, _ string, lines []string) (found []finding) {
	for i, line := range lines {
		for _, word := range wordsPattern.FindAllString(line, -1) {
			found = append(found, finding{line: i + 1, text: fmt.Sprintf("%q: write %s", word, words[strings.ToLower(word)])})
		}
	}
	return found
}
