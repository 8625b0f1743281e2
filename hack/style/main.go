// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command style checks the text of all hand-written files below the current directory: words that must not come back (words.go), lines
// that are too wide (width.go), names of tests that are too long (names.go), limits in tests that are too short (limits.go), and links of guides
// that lead nowhere (links.go). It prints one line for each finding, with the file and the line, and exits with 1 if there are any.
//
// hack/style/exempt.txt lists what is not checked, a check and a path a line.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// exemptions is the file with the paths that a check does not look at.
const exemptions = "hack/style/exempt.txt"

// check finds what is wrong in one file.
type check struct {
	name string
	// covers reports whether the check is about files of this name.
	covers func(name string) bool
	// find returns a finding for each line of the file that is wrong.
	find func(tree fs.FS, name string, lines []string) []finding
}

type finding struct {
	line int // from 1
	text string
}

var checks = []check{
	{name: "words", covers: written, find: findWords},
	{name: "width", covers: func(name string) bool { return path.Ext(name) == ".go" }, find: findWide},
	{name: "names", covers: isTest, find: findLongNames},
	{name: "limits", covers: func(name string) bool { return isTest(name) && written(name) }, find: findLimits},
	{name: "links", covers: func(name string) bool { return path.Ext(name) == ".md" }, find: findDeadLinks},
}

func main() {
	findings, err := run(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "style:", err)
		os.Exit(2)
	}
	for _, finding := range findings {
		fmt.Println(finding)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// run returns a line for each finding in the tree.
func run(tree fs.FS) (findings []string, err error) {
	exempt, err := readExemptions(tree)
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case entry.IsDir() || generated(name):
			return nil
		}
		for _, check := range checks {
			if !check.covers(name) || exempt.has(check.name, name) {
				continue
			}
			content, err := fs.ReadFile(tree, name)
			if err != nil {
				return err
			}
			for _, found := range check.find(tree, name, strings.Split(string(content), "\n")) {
				findings = append(findings, fmt.Sprintf("%s:%d: %s: %s", name, found.line, check.name, found.text))
			}
		}
		return nil
	})
	return findings, err
}

// skipped reports whether a folder has nothing that is written by hand, or what tests need as it is.
func skipped(dir string) bool {
	base := path.Base(dir)
	if strings.HasPrefix(base, ".") {
		return !slices.Contains([]string{".", ".ci", ".github"}, base)
	}
	return base == "testdata" || slices.Contains([]string{"bin", "pkg/generated", "manifests/00-crds", "manifests/chart/templates/crds"}, dir)
}

func generated(name string) bool { return strings.HasPrefix(path.Base(name), "zz_generated.") }

// written reports whether people read and write files of this name: code, scripts, manifests, guides.
func written(name string) bool {
	if path.Base(name) == "Makefile" || path.Dir(name) == ".ci" {
		return true
	}
	return slices.Contains([]string{".go", ".md", ".sh", ".yaml", ".json"}, path.Ext(name)) && path.Dir(name) != "hack/style"
}

// exemption is a set of paths per check.
type exemption map[string][]string

func readExemptions(tree fs.FS) (exemption, error) {
	content, err := fs.ReadFile(tree, exemptions)
	if err != nil {
		return nil, err
	}
	exempt := exemption{}
	for i, line := range strings.Split(string(content), "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			continue
		case len(fields) != 2 || !slices.ContainsFunc(checks, func(c check) bool { return c.name == fields[0] }):
			return nil, fmt.Errorf("%s:%d: invalid line: must be a check and a path", exemptions, i+1)
		}
		exempt[fields[0]] = append(exempt[fields[0]], fields[1])
	}
	return exempt, nil
}

// has reports whether the file, or a folder that it is in, is exempt from the check.
func (e exemption) has(check, name string) bool {
	return slices.ContainsFunc(e[check], func(exempt string) bool { return name == exempt || strings.HasPrefix(name, exempt+"/") })
}
