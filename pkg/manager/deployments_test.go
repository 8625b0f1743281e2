// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// A Deployment of the table has the name millwright-NAME, and files of its own in manifests. make generate writes the roles and the
// --controllers.
func TestManifestsFollowFromTheTable(t *testing.T) {
	running := map[string][]string{}
	for _, d := range Descriptors() {
		running[d.Deployment] = append(running[d.Deployment], d.Name)
		if len(containing(t, "pkg/controller/"+d.Markers()+"/doc.go", "+kubebuilder:rbac:")) == 0 {
			t.Errorf("%s: pkg/controller/%s/doc.go has no RBAC markers", d.Name, d.Markers())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(running)) {
		t.Run(name, func(t *testing.T) {
			for file, line := range map[string]string{
				"manifests/30-" + name + ".yaml":         "- --controllers=" + strings.Join(running[name], ",") + "\n",
				"manifests/20-" + name + "-account.yaml": "  name: millwright-" + name + "\n",
				"manifests/21-" + name + "-role.yaml":    "  name: millwright-" + name + "\n",
				"manifests/40-metrics.yaml":              "millwright-" + name,
				"manifests/41-networkpolicy.yaml":        "millwright-" + name,
				"manifests/kustomization.yaml":           "- 30-" + name + ".yaml\n",
			} {
				if len(containing(t, file, line)) == 0 {
					t.Errorf("%s lacks %q; make generate writes roles and --controllers", file, line)
				}
			}
		})
	}
}
