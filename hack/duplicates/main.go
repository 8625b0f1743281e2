// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command duplicates finds the same ten lines in the controllers of two kinds, below the current directory: what two kinds need belongs to
// pkg/controller or to a domain. It prints one line for each pair, with both places, and exits with 1 if there are any.
//
// Imports, comments and empty lines do not count, nor does indentation. A line without a letter must be the same, and does not count either.
package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
)

const (
	// kinds is the folder with one folder for each kind.
	kinds = "pkg/controller"
	// most is how many equal lines are one too many.
	most = 10
)

// pending are files that may still be equal to those of another kind. Nothing is added here.
var pending = []string{
	"pkg/controller/immortalcontainer/apiserver_test.go",
	"pkg/controller/immortalcontainer/builders_test.go",
	"pkg/controller/immortalcontainer/cluster_test.go",
}

func main() {
	pairs, err := run(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "duplicates:", err)
		os.Exit(2)
	}
	for _, pair := range pairs {
		fmt.Println(pair)
	}
	if len(pairs) > 0 {
		os.Exit(1)
	}
}

// source is the code of one file, line by line.
type source struct {
	name, kind string
	lines      []line
}

type line struct {
	number int // from 1
	text   string
}

// run returns a line for each pair of files of two kinds with equal lines, and for each place in them.
func run(tree fs.FS) (pairs []string, err error) {
	sources, err := read(tree)
	if err != nil {
		return nil, err
	}
	// The first lines of each run of equal ones are found by their text, in the files before.
	starts := map[string][]place{}
	for _, s := range sources {
		end := map[string]int{} // where the last pair with a file ended in this one
		for i := range s.lines {
			text, ok := s.key(i)
			if !ok {
				continue
			}
			for _, other := range starts[text] {
				if other.source.kind == s.kind || i < end[other.source.name] {
					continue
				}
				length := equal(other.source.lines[other.index:], s.lines[i:])
				end[other.source.name] = i + length
				pairs = append(pairs, fmt.Sprintf("%s:%d and %s:%d: %d equal lines",
					other.source.name, other.source.lines[other.index].number, s.name, s.lines[i].number, length))
			}
		}
		for i := range s.lines {
			if text, ok := s.key(i); ok {
				starts[text] = append(starts[text], place{source: s, index: i})
			}
		}
	}
	return pairs, nil
}

type place struct {
	source *source
	index  int
}

// key returns the text of the lines from i on, as many as are too many; false where the file or the code ends before.
func (s *source) key(i int) (string, bool) {
	counted := 0
	for j := i; j < len(s.lines); j++ {
		if strings.ContainsFunc(s.lines[j].text, unicode.IsLetter) {
			counted++
		} else if j == i {
			return "", false
		}
		if counted == most {
			texts := make([]string, 0, j-i+1)
			for _, l := range s.lines[i : j+1] {
				texts = append(texts, l.text)
			}
			return strings.Join(texts, "\n"), true
		}
	}
	return "", false
}

// equal returns how many lines two files have in common.
func equal(a, b []line) int {
	n := 0
	for n < len(a) && n < len(b) && a[n].text == b[n].text {
		n++
	}
	return n
}

// read returns the files of all kinds, in the order of their names.
func read(tree fs.FS) (sources []*source, err error) {
	err = fs.WalkDir(tree, kinds, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".go" || path.Dir(name) == kinds || slices.Contains(pending, name) {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(name, kinds+"/"), "/")
		code, err := codeOf(name, content)
		sources = append(sources, &source{name: name, kind: kind, lines: code})
		return err
	})
	return sources, err
}

// codeOf returns the lines of a file after its imports, without comments and empty lines.
func codeOf(name string, content []byte) (code []line, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	first := files.Position(parsed.Name.End()).Line + 1
	for _, imported := range parsed.Imports {
		first = max(first, files.Position(imported.End()).Line+1)
	}
	for i, text := range strings.Split(string(content), "\n") {
		text = strings.TrimSpace(text)
		if i+1 < first || text == "" || text == ")" && i+1 == first || strings.HasPrefix(text, "//") {
			continue
		}
		code = append(code, line{number: i + 1, text: text})
	}
	return slices.Clip(code), nil
}
