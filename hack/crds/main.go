// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command crds finishes the CRD files that it is given, after controller-gen: it lets Pod templates be partial, and admits no value that a Go
// client cannot decode.
package main

import (
	"bytes"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: crds CRD.yaml...")
		os.Exit(2)
	}
	for _, path := range os.Args[1:] {
		if err := rewrite(path); err != nil {
			fmt.Fprintf(os.Stderr, "crds: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func rewrite(path string) error {
	crd, err := readCRD(path)
	if err != nil {
		return err
	}
	for _, schema := range schemas(crd) {
		walk(schema, func(schema object) bool {
			if spec, ok := podTemplateSpec(schema); ok {
				relax(spec)
			}
			narrow(schema)
			return true
		})
	}
	content, err := writeCRD(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func readCRD(path string) (object, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var crd object
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return nil, err
	}
	if crd["kind"] != "CustomResourceDefinition" {
		return nil, fmt.Errorf("is a %v, not a CustomResourceDefinition", crd["kind"])
	}
	return crd, nil
}

// writeCRD writes what controller-gen would: the same library, the same separator.
func writeCRD(crd object) ([]byte, error) {
	content, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{[]byte("---\n"), content}, nil), nil
}
