// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

const podTemplateCRD = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    controller-gen.kubebuilder.io/version: v0.23.0
  name: things.example.org
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              containers:
                description: not a Pod's, for there are no init containers next to it
                type: array
              jobs:
                items:
                  properties:
                    template:
                      properties:
                        spec:
                          properties:
                            containers:
                              items:
                                required:
                                - name
                                type: object
                              minItems: 1
                              type: array
                            initContainers:
                              type: array
                            nodeName:
                              type: string
                          required:
                          - containers
                          - nodeName
                          type: object
                      type: object
                  type: object
                type: array
            required:
            - containers
            type: object
        type: object
`

func TestOnlyContainersAreRelaxed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(path, []byte(podTemplateCRD), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(path); err != nil {
		t.Fatal(err)
	}

	want := unmarshal(t, []byte(podTemplateCRD))
	jobs := field(field(field(field(schemas(want)["v1"], "properties"), "spec"), "properties"), "jobs")
	spec := field(field(field(field(field(jobs, "items"), "properties"), "template"), "properties"), "spec")
	spec["required"] = []any{"nodeName"}
	field(field(spec, "properties"), "containers")["nullable"] = true

	once, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if wanted, err := writeCRD(want); err != nil || string(once) != string(wanted) {
		t.Errorf("the CRD became:\n%s\nwant (%v):\n%s", once, err, wanted)
	}

	if err := rewrite(path); err != nil {
		t.Fatal(err)
	}
	if twice, err := os.ReadFile(path); err != nil || string(twice) != string(once) {
		t.Errorf("rewritten again (%v), the CRD became:\n%s\nwant no change", err, twice)
	}
}

func TestAFileThatIsNoCRDIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod.yaml")
	const pod = "kind: Pod\n"
	if err := os.WriteFile(path, []byte(pod), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(path); err == nil {
		t.Error("rewrite returned no error")
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != pod {
		t.Errorf("the file became (%v): %s", err, content)
	}
}

// The rest is about the CRDs that are shipped.

func TestPodTemplatesMayOmitContainers(t *testing.T) {
	templates := 0
	for name, crd := range shipped(t) {
		for version, schema := range schemas(crd) {
			walk(schema, func(schema object) bool {
				spec, ok := podTemplateSpec(schema)
				if !ok {
					return true
				}
				templates++
				if slices.Contains(list(spec, "required"), any("containers")) {
					t.Errorf("%s %s: a template needs containers: run make generate", name, version)
				}
				if field(field(spec, "properties"), "containers")["nullable"] != true {
					t.Errorf("%s %s: the containers of a template must not be null: run make generate", name, version)
				}
				return false
			})
		}
	}
	if templates == 0 {
		t.Error("no Pod template was found in any CRD: has its shape changed?")
	}
}

// The API server stores a CRD as JSON, with the record of who set which field, and etcd refuses more than 1.5 MiB.
func TestEveryCRDIsSmallEnoughToBeStored(t *testing.T) {
	const limit = 1 << 20
	for name, crd := range shipped(t) {
		content, err := json.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		if len(content) > limit {
			t.Errorf("%s has %d bytes of JSON, more than %d: shorten it, for example with controller-gen's maxDescLen", name, len(content), limit)
		}
	}
}

func TestEveryFieldHasADescription(t *testing.T) {
	for name, crd := range shipped(t) {
		for version, schema := range schemas(crd) {
			if schema["description"] == nil {
				t.Errorf("%s %s: the kind has no description", name, version)
			}
			describe(t, name+" "+version+": ", schema)
		}
	}
}

// describe reports the properties without a description. It leaves alone what comes from Kubernetes: metadata, which the API
// server describes, and the inside of Pod templates.
func describe(t *testing.T, path string, schema object) {
	if _, ok := podTemplateSpec(schema); ok {
		return
	}
	for name, property := range field(schema, "properties") {
		if name == "metadata" {
			continue
		}
		property, _ := property.(object)
		if property["description"] == nil {
			t.Errorf("%s.%s has no description: write a comment at its Go field and run make generate", path, name)
		}
		describe(t, path+"."+name, property)
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if inner := field(schema, inner); inner != nil {
			describe(t, path+"[]", inner)
		}
	}
}

// shipped reads the CRDs in manifests, by file name.
func shipped(t *testing.T) map[string]object {
	t.Helper()
	paths, err := filepath.Glob("../../manifests/00-crds/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no CRDs found in manifests/00-crds (%v)", err)
	}
	crds := map[string]object{}
	for _, path := range paths {
		crd, err := readCRD(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		crds[filepath.Base(path)] = crd
	}
	return crds
}

func unmarshal(t *testing.T, content []byte) object {
	t.Helper()
	var o object
	if err := yaml.Unmarshal(content, &o); err != nil {
		t.Fatal(err)
	}
	return o
}
