// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// link is one of Markdown, as in [text](target).
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// dropped is what the anchor of a heading does not have.
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// findDeadLinks returns the links that lead to a file, a folder or a heading which does not exist. What is elsewhere is not asked.
func findDeadLinks(tree fs.FS, name string, lines []string) (found []finding) {
	for i, line := range lines {
		for _, match := range link.FindAllStringSubmatch(line, -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, ":") {
				continue
			}
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := fs.Stat(tree, file); err != nil {
				found = append(found, finding{line: i + 1, text: "the link to " + match[1] + " leads nowhere"})
			} else if anchor != "" && !hasHeading(tree, file, anchor) {
				found = append(found, finding{line: i + 1, text: fmt.Sprintf("%s has no heading #%s", file, anchor)})
			}
		}
	}
	return found
}

// hasHeading reports whether a heading of the file has the anchor that GitHub gives it.
func hasHeading(tree fs.FS, file, anchor string) bool {
	content, err := fs.ReadFile(tree, file)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(heading.FindAllStringSubmatch(string(content), -1), func(match []string) bool {
		return strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(match[1], "")), " ", "-") == anchor
	})
}
