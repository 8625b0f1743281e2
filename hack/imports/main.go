// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command imports checks the imports of packages: it reads every Go file below the current directory and prints the imports that
// break a rule (rules.go), with the file and the line. It exits with 1 if there are any. It also checks the files that declare
// themselves pure (purity.go).
//
// Files are read rather than packages listed, so that those for another operating system count too and no build is needed.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// module is the module that the rules are about.
const module = "millwright.dev"

func main() {
	broken, err := check(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "imports:", err)
		os.Exit(2)
	}
	for _, violation := range broken {
		fmt.Println(violation)
	}
	if len(broken) > 0 {
		os.Exit(1)
	}
}

// check returns a line for every import in the tree that breaks a rule.
func check(tree fs.FS) (broken []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(tree, name)
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		found, err := checkFile(tree, name)
		broken = append(broken, found...)
		return err
	})
	return broken, err
}

// enter skips what is no part of the module: folders that go ignores too, and modules of their own.
func enter(tree fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	if base := path.Base(dir); base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := fs.Stat(tree, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func checkFile(tree fs.FS, name string) (broken []string, err error) {
	content, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	report := func(node ast.Node, what, why string) {
		position := files.Position(node.Pos())
		broken = append(broken, fmt.Sprintf("%s:%d: %s: %s", name, position.Line, what, why))
	}
	importer := file{path: name, pure: isPure(parsed)}
	for _, comment := range misplacedDirectives(parsed) {
		report(comment, comment.Text, "write "+pureDirective+" above the package clause, on a line of its own; there is no other directive")
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		for _, rule := range rules {
			if rule.breaks(importer, imported) {
				report(spec, "imports "+imported, rule.why)
			}
		}
	}
	if importer.pure {
		for _, call := range impureCalls(parsed) {
			report(call.node, "calls "+call.name, "a pure file gets the time and what is random as an argument, and never waits")
		}
	}
	return broken, nil
}
