// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/manager"
)

var (
	foos = crd{file: "x_foos.yaml", resource: schema.GroupResource{Group: "x", Resource: "foos"}, status: true, scale: true}
	bars = crd{file: "x_bars.yaml", resource: schema.GroupResource{Group: "x", Resource: "bars"}}
	runs = crd{file: "y_runs.yaml", resource: schema.GroupResource{Group: "y", Resource: "runs"}}
	logs = crd{file: "z_logs.yaml", resource: schema.GroupResource{Group: "z", Resource: "logs"}}
)

func TestReplacedLines(t *testing.T) {
	for name, tc := range map[string]struct{ before, after string }{
		"in their place":   {"a\n- 00-crds/old.yaml\n- 00-crds/older.yaml\nz\n", "a\n- 00-crds/x_foos.yaml\n- 00-crds/y_runs.yaml\nz\n"},
		"already there":    {"- 00-crds/x_foos.yaml\n- 00-crds/y_runs.yaml\nz\n", "- 00-crds/x_foos.yaml\n- 00-crds/y_runs.yaml\nz\n"},
		"no place to list": {"a\nz\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := withCRDs(tc.before, []crd{foos, runs})
			if got != tc.after || (err != nil) != (tc.after == "") {
				t.Errorf("got %q, %v; want %q", got, err, tc.after)
			}
		})
	}
}

func TestControllersOfADeployment(t *testing.T) {
	got, err := withControllers("        args:\n        - --controllers=old\n        - --v=2\n", []string{"bar", "foo"})
	if want := "        args:\n        - --controllers=bar,foo\n        - --v=2\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestRightsOfUsers(t *testing.T) {
	const before = "metadata:\n  name: millwright-view\nrules:\n- old\n---\n" +
		"# Stays.\nmetadata:\n  name: millwright-edit\nrules:\n- old\n---\n" +
		"metadata:\n  name: millwright-actions-edit\nrules:\n- old\n---\n" +
		"metadata:\n  name: other\nrules:\n- stays\n"
	const after = "metadata:\n  name: millwright-view\nrules:\n" +
		"- apiGroups: [x]\n  resources: [foos, foos/status, foos/scale, bars]\n  verbs: [get, list, watch]\n" +
		"- apiGroups: [y]\n  resources: [runs]\n  verbs: [get, list, watch]\n---\n" +
		"# Stays.\nmetadata:\n  name: millwright-edit\nrules:\n" +
		"- apiGroups: [x]\n  resources: [foos]\n  verbs: [create, delete, deletecollection, patch, update]\n" +
		"- apiGroups: [x]\n  resources: [foos/scale]\n  verbs: [patch, update]\n---\n" +
		"metadata:\n  name: millwright-actions-edit\nrules:\n" +
		"- apiGroups: [y]\n  resources: [runs]\n  verbs: [create, delete, deletecollection, get, list, patch, update, watch]\n---\n" +
		"metadata:\n  name: other\nrules:\n- stays\n"
	row := func(role string, c crd) manager.Descriptor {
		return manager.Descriptor{EditRole: role, Requires: []schema.GroupVersionResource{c.resource.WithVersion("v1")}}
	}
	table := []manager.Descriptor{row(manager.EditRole, foos), row("", bars), row(manager.ActionsEditRole, runs)}
	got, err := withRights(before, []crd{foos, bars, runs, logs}, table)
	if err != nil || got != after {
		t.Errorf("got, with the error %v,\n%s\nwant\n%s", err, got, after)
	}
	if _, err := withRights("metadata:\n  name: other\n", nil, nil); err == nil {
		t.Error("no error where the roles are missing")
	}
}
