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

// rightsOnRelated are the rights that the engine needs on what the customize hooks of a sample name. The manifests do not show it.
var rightsOnRelated = map[string][]rbacv1.PolicyRule{
	"configmappropagation.yaml": {{APIGroups: []string{""}, Resources: []string{"configmaps", "namespaces"}, Verbs: []string{"list", "watch"}}},
	"secretmirror.yaml":         {{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list", "watch"}}},
}

// The samples grant the rights with which the other tests of the engine work, and no others.
func TestPrivilegesOfSamples(t *testing.T) {
	composites, decorators := 0, 0
	for _, folder := range []string{"compositecontroller", "decoratorcontroller"} {
		files, err := filepath.Glob("../../../manifests/samples/" + folder + "/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				sample := readSample(t, file)
				composites, decorators = composites+len(sample.composites), decorators+len(sample.decorators)
				needed := append(sample.needed(t), rightsOnRelated[filepath.Base(file)]...)
				if diff := cmp.Diff(rightsOf(needed), rightsOf(sample.granted()), cmp.AllowUnexported(right{})); diff != "" {
					t.Errorf("rights (-needed +granted):\n%s", diff)
				}
			})
		}
	}
	if composites < 4 || decorators < 3 {
		t.Errorf("got %d CompositeControllers and %d DecoratorControllers in the samples, want at least 4 and 3", composites, decorators)
	}
}

// sample are the controllers and roles of a file.
type sample struct {
	composites []v1alpha1.CompositeController
	decorators []v1alpha1.DecoratorController
	roles      []rbacv1.ClusterRole
}

func readSample(t *testing.T, file string) (s sample) {
	t.Helper()
	err := eachObject(file, func(kind string, document []byte) error {
		switch kind {
		case "CompositeController":
			return appendTo(&s.composites, document)
		case "DecoratorController":
			return appendTo(&s.decorators, document)
		case "ClusterRole":
			return appendTo(&s.roles, document)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// granted returns the rules that the engine gets.
func (s *sample) granted() (rules []rbacv1.PolicyRule) {
	for _, role := range s.roles {
		if role.Labels["millwright.dev/aggregate-to-engine"] == "true" {
			rules = append(rules, role.Rules...)
		}
	}
	return rules
}

// needed returns the rules that the controllers need, if the hooks of decorators answer without a status.
func (s *sample) needed(t *testing.T) (needed []rbacv1.PolicyRule) {
	t.Helper()
	for _, composite := range s.composites {
		parent := composite.Spec.ParentResource
		needed = append(needed, rightsOnParents(groupOf(t, parent.APIVersion), parent.Resource)...)
		for _, child := range composite.Spec.ChildResources {
			needed = append(needed, rightsOnChildren(groupOf(t, child.APIVersion), child.Resource)...)
		}
	}
	for _, decorator := range s.decorators {
		for _, target := range decorator.Spec.Resources {
			needed = append(needed, rightsOnTargets(groupOf(t, target.APIVersion), target.Resource)...)
			if len(decorator.Spec.Attachments) > 0 {
				needed = append(needed, rightToOwn(groupOf(t, target.APIVersion), target.Resource))
			}
		}
		for _, attachment := range decorator.Spec.Attachments {
			needed = append(needed, rightsOnChildren(groupOf(t, attachment.APIVersion), attachment.Resource)...)
		}
	}
	return needed
}

func groupOf(t *testing.T, apiVersion string) string {
	t.Helper()
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	return version.Group
}
