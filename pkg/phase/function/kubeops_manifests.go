// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

const (
	// maxSpecMemory is how much memory the objects in a spec may take together, in bytes. Each worker may hold that much.
	maxSpecMemory = 8 << 20
	// smallSpec is the size of a spec without aliases that may be read at any time, in bytes.
	smallSpec = 16 << 10
)

// manifests returns the objects in one or more YAML documents.
func manifests(ctx context.Context, text string) (objects []*unstructured.Unstructured, err error) {
	const source = "the spec"
	err = eachDocument(ctx, source, text, func(content []byte) (map[string]any, error) {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return nil, phase.Failf("reading %s: %v", source, err)
		}
		if object.IsList() {
			return nil, phase.Failf("the spec has a list: write its items as separate documents, with --- between them")
		}
		objects = append(objects, object)
		return object.Object, nil
	})
	if err == nil && len(objects) == 0 {
		return nil, phase.Failf("the spec has no object")
	}
	return objects, err
}

// eachDocument calls decode for each YAML document in the text that is not empty, with its JSON. source describes the text in errors. A text of 1 MiB may
// take 100 MiB until it is decoded, so few of a process are read at a time, but for small ones without aliases.
func eachDocument(ctx context.Context, source, text string, decode func(content []byte) (map[string]any, error)) error {
	budget := blueprint.NewBudget(ctx)
	done, err := budget.Turn(len(text) <= smallSpec && !strings.Contains(text, "*"))
	if err != nil {
		return err
	}
	defer done()
	if err := checkAliases(text); err != nil {
		return phase.Failf("reading %s: %v", source, err)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for memory := 0; ; {
		var raw runtime.RawExtension
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return phase.Failf("reading %s: %v", source, err)
		}
		if len(bytes.TrimSpace(raw.Raw)) == 0 || string(raw.Raw) == "null" {
			continue
		}
		object, err := decode(raw.Raw)
		if err != nil {
			return err
		}
		taken, err := budget.PayForObject(object)
		if stopped := budget.Stopped(); stopped != nil {
			return fmt.Errorf("reading %s: %w", source, stopped)
		}
		if memory += taken; err != nil || memory > maxSpecMemory {
			return phase.Failf("%s takes more than %d bytes of memory when it is read: divide it among several phases", source, maxSpecMemory)
		}
	}
}
