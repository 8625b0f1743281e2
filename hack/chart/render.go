// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// part is what one kustomization contributes.
type part struct {
	// name of its file of templates; "" to name files by what is in them.
	name string
	// condition of Helm under which it is installed; "" for always.
	condition string
	objects   []*unstructured.Unstructured
}

// components are the optional ones of manifests that a value of the chart adds.
var components = []part{
	{name: "monitoring", condition: ".Values.monitoring.enabled"},
	{name: "engine-all-rights", condition: ".Values.engine.allRights"},
}

// render returns all parts: the kustomization in the folder, and what each component adds to it.
func render(manifests string) ([]part, error) {
	all, err := kustomize(manifests)
	if err != nil {
		return nil, err
	}
	parts := []part{{objects: all}}
	for _, p := range components {
		extended, err := kustomize(manifests, p.name)
		if err != nil {
			return nil, err
		}
		p.objects = slices.DeleteFunc(extended, func(object *unstructured.Unstructured) bool {
			return slices.ContainsFunc(all, func(base *unstructured.Unstructured) bool { return identity(base) == identity(object) })
		})
		parts = append(parts, p)
	}
	return parts, nil
}

// identity is the same for two versions of one object.
func identity(object *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName())
}

// kustomize returns what kubectl kustomize prints for the folder with these of its components.
func kustomize(manifests string, components ...string) ([]*unstructured.Unstructured, error) {
	manifests, err := filepath.Abs(manifests)
	if err != nil {
		return nil, err
	}
	files := filesys.MakeFsOnDisk()
	target := manifests
	if len(components) > 0 {
		// A kustomization that names the components. It is next to the folder that it names, since that may not contain it.
		overlay, err := filesys.NewTmpConfirmedDir()
		if err != nil {
			return nil, err
		}
		defer files.RemoveAll(string(overlay))
		relative, err := filepath.Rel(string(overlay), manifests)
		if err != nil {
			return nil, err
		}
		text := "resources:\n- " + relative + "\ncomponents:\n"
		for _, component := range components {
			text += "- " + filepath.Join(relative, component) + "\n"
		}
		if err := files.WriteFile(overlay.Join("kustomization.yaml"), []byte(text)); err != nil {
			return nil, err
		}
		target = string(overlay)
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, target)
	if err != nil {
		return nil, fmt.Errorf("kustomize %s: %w", target, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range rendered.Resources() {
		content, err := resource.MarshalJSON()
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}
