// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"bytes"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"millwright.dev/pkg/phase"
)

// manifests returns the objects in one or more YAML documents.
func manifests(text string) (objects []*unstructured.Unstructured, err error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		var raw runtime.RawExtension
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, phase.Failf("reading the spec: %v", err)
		}
		if len(bytes.TrimSpace(raw.Raw)) == 0 || string(raw.Raw) == "null" {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw.Raw); err != nil {
			return nil, phase.Failf("reading the spec: %v", err)
		}
		if object.IsList() {
			return nil, phase.Failf("the spec has a list: write its items as separate documents, with --- between them")
		}
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		return nil, phase.Failf("the spec has no object")
	}
	return objects, nil
}
