// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// maxWidth is how wide a line may be, in columns.
	maxWidth = 160
	// tabWidth is how wide a tab is, in columns.
	tabWidth = 4
)

// literal is a string literal within a line.
var literal = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`?")

// findWide returns the lines that are wider than maxWidth. The longest string literal of a line does not count: a message is found by its
// text if it stays in one piece. Nor does what is within a literal of several lines, or after a comment's marker of a tool.
func findWide(_ fs.FS, _ string, lines []string) (found []finding) {
	raw := false // within a literal of several lines
	for i, line := range lines {
		begins := raw
		if strings.Count(line, "`")%2 == 1 {
			raw = !raw
		}
		if begins || strings.HasPrefix(strings.TrimSpace(line), "//+") || strings.HasPrefix(strings.TrimSpace(line), "// +") {
			continue
		}
		width := columns(line)
		for _, message := range literal.FindAllString(line, -1) {
			width = min(width, columns(line)-utf8.RuneCountInString(message))
		}
		if width > maxWidth {
			found = append(found, finding{line: i + 1, text: fmt.Sprintf("the line has %d columns, most are %d", columns(line), maxWidth)})
		}
	}
	return found
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
}
