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

// The other tests of the engine have the same rights on their parents and children, and need no others.
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
				t.Errorf("(-needed +granted):\n%s", diff)
			}
		})
	}
	if controllers < 3 {
		t.Errorf("the samples have %d CompositeControllers: this test looks in the wrong place", controllers)
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
