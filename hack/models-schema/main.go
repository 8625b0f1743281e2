// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command models-schema prints the OpenAPI v2 models of the project's kinds and of all that they refer to.
// applyconfiguration-gen reads them; without them the fake clientset cannot do server-side apply for our kinds.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"millwright.dev/pkg/generated/openapi"
)

func main() {
	if err := printModels(); err != nil {
		fmt.Fprintln(os.Stderr, "models-schema:", err)
		os.Exit(1)
	}
}

func printModels() error {
	config := &common.Config{
		Info:           &spec.Info{InfoProps: spec.InfoProps{Title: "Millwright", Version: "unversioned"}},
		GetDefinitions: openapi.GetOpenAPIDefinitions,
	}
	var names []string
	for name := range openapi.GetOpenAPIDefinitions(func(string) spec.Ref { return spec.Ref{} }) {
		names = append(names, name)
	}
	swagger, err := builder.BuildOpenAPIDefinitionsForResources(config, names...)
	if err != nil {
		return fmt.Errorf("building the models: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(swagger)
}
