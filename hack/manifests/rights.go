// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/manager"
)

// crd is what of a CRD matters for the rights to its objects.
type crd struct {
	file     string
	resource schema.GroupResource
	// status and scale report whether the kind has these subresources.
	status, scale bool
}

// readCRDs returns the CRDs in the folder, in the order of their files.
func readCRDs(dir string) (crds []crd, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var read struct {
			Spec struct {
				Group    string
				Names    struct{ Plural string }
				Versions []struct {
					Subresources struct{ Status, Scale *struct{} }
				}
			}
		}
		if err := yaml.Unmarshal(content, &read); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		c := crd{file: filepath.Base(path), resource: schema.GroupResource{Group: read.Spec.Group, Resource: read.Spec.Names.Plural}}
		for _, version := range read.Spec.Versions {
			c.status = c.status || version.Subresources.Status != nil
			c.scale = c.scale || version.Subresources.Scale != nil
		}
		crds = append(crds, c)
	}
	return crds, nil
}

const (
	readVerbs  = "get, list, watch"
	writeVerbs = "create, delete, deletecollection, patch, update"
	allVerbs   = "create, delete, deletecollection, get, list, patch, update, watch"
)

// withRights writes the rules of the roles of users: the role view may read each kind of the table, and the role of its row may write it.
func withRights(text string, crds []crd, table []manager.Descriptor) (string, error) {
	var view, editing, actions rules
	for _, c := range crds {
		row := slices.IndexFunc(table, func(d manager.Descriptor) bool {
			return slices.Contains(d.Records, c.resource) ||
				slices.ContainsFunc(d.Requires, func(r schema.GroupVersionResource) bool { return r.GroupResource() == c.resource })
		})
		if row < 0 {
			continue // records of our own API server, which no user reads
		}
		name, scale := c.resource.Resource, c.resource.Resource+"/scale"
		view.add(c, readVerbs, name)
		if c.status {
			view.add(c, readVerbs, name+"/status")
		}
		if c.scale {
			view.add(c, readVerbs, scale)
		}
		switch table[row].EditRole {
		case manager.EditRole:
			editing.add(c, writeVerbs, name)
			if c.scale {
				editing.add(c, "patch, update", scale)
			}
		case manager.ActionsEditRole:
			actions.add(c, allVerbs, name)
		}
	}
	documents := strings.Split(text, "---\n")
	for role, r := range map[string]rules{manager.ViewRole: view, manager.EditRole: editing, manager.ActionsEditRole: actions} {
		at := slices.IndexFunc(documents, func(document string) bool { return strings.Contains(document, "\n  name: "+role+"\n") })
		if at < 0 {
			return "", fmt.Errorf("no role is named %s", role)
		}
		head, _, found := strings.Cut(documents[at], "\nrules:\n")
		if !found {
			return "", fmt.Errorf("the role %s has no rules", role)
		}
		documents[at] = head + "\nrules:\n" + r.String()
	}
	return strings.Join(documents, "---\n"), nil
}

// rules of a role.
type rules []*rule

// rule allows the verbs for resources of one group.
type rule struct {
	group, verbs string
	resources    []string
}

// add the right to a resource. Those to resources of one group with the same verbs are one rule.
func (r *rules) add(c crd, verbs, resource string) {
	for _, existing := range *r {
		if existing.group == c.resource.Group && existing.verbs == verbs {
			existing.resources = append(existing.resources, resource)
			return
		}
	}
	*r = append(*r, &rule{c.resource.Group, verbs, []string{resource}})
}

// String returns the rules as YAML.
func (r rules) String() string {
	var text strings.Builder
	for _, rule := range r {
		fmt.Fprintf(&text, "- apiGroups: [%s]\n  resources: [%s]\n  verbs: [%s]\n", rule.group, strings.Join(rule.resources, ", "), rule.verbs)
	}
	return text.String()
}
