// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chart writes the templates of the Helm chart in manifests/chart from what the kustomization in manifests renders, so that both install
// the same: at default values, helm template prints what kubectl kustomize prints. Values, their schema, helpers and notes are written by hand, and
// stay. It is a module of its own because the tests of the chart need Helm, which the operator does not.
//
//	chart MANIFESTS   writes MANIFESTS/chart/templates
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// generatedPrefix begins each file that this program writes. A file without it is never removed.
const generatedPrefix = "{{- /* Generated from the kustomization by make generate. */ -}}\n"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("invalid arguments %q: must be the folder of the manifests", args)
	}
	files, err := generate(args[0])
	if err != nil {
		return err
	}
	return write(filepath.Join(args[0], "chart", "templates"), files)
}

// generate returns the text of the templates by the names of their files.
func generate(manifests string) (map[string]string, error) {
	parts, err := render(manifests)
	if err != nil {
		return nil, err
	}
	texts := map[string]*strings.Builder{}
	for _, part := range parts {
		for _, object := range part.objects {
			template, err := templateOf(object, part.condition)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
			}
			file := fileOf(object, part)
			if texts[file] == nil {
				texts[file] = &strings.Builder{}
				texts[file].WriteString(generatedPrefix)
			}
			texts[file].WriteString(template)
		}
	}
	files := map[string]string{}
	for file, text := range texts {
		files[file] = text.String()
	}
	return files, nil
}

// write the files, and remove those that an earlier run has written and this one has not.
func write(dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if _, wanted := files[name]; err != nil || wanted || !strings.HasPrefix(string(content), generatedPrefix) {
			return err
		}
		return os.Remove(path)
	})
}
