// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// The samples grant the rights on parents and children with which the other tests of the engine work.
func TestPrivilegesOfSamples(t *testing.T) {
	files, err := filepath.Glob("../../../manifests/samples/compositecontroller/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	controllers := 0
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var composites []v1alpha1.CompositeController
			var roles []rbacv1.ClusterRole
			err := eachObject(file, func(kind string, document []byte) error {
				switch kind {
				case "CompositeController":
					return appendTo(&composites, document)
				case "ClusterRole":
					return appendTo(&roles, document)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var needed, granted []rbacv1.PolicyRule
			for _, composite := range composites {
				controllers++
				parent := composite.Spec.ParentResource
				needed = append(needed, rightsOnParents(groupOf(t, parent.APIVersion), parent.Resource)...)
				for _, child := range composite.Spec.ChildResources {
					needed = append(needed, rightsOnChildren(groupOf(t, child.APIVersion), child.Resource)...)
				}
			}
			for _, role := range roles {
				if role.Labels["millwright.dev/aggregate-to-engine"] == "true" {
					granted = append(granted, role.Rules...)
				}
			}
			if diff := cmp.Diff(rightsOf(needed), rightsOf(granted), cmp.AllowUnexported(right{})); diff != "" {
				t.Errorf("rights (-needed +granted):\n%s", diff)
			}
		})
	}
	if controllers < 3 {
		t.Errorf("got %d CompositeControllers in the samples, want at least 3", controllers)
	}
}

func groupOf(t *testing.T, apiVersion string) string {
	t.Helper()
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	return version.Group
}
