// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// TestOrderOfTypesThatRoll: children of several types are updated in the order of the answer, not type by type.
func TestOrderOfTypesThatRoll(t *testing.T) {
	rolling := func(apiVersion, resource string, method v1alpha1.ChildUpdateMethod) v1alpha1.CompositeControllerChildResourceRule {
		return v1alpha1.CompositeControllerChildResourceRule{ResourceRule: v1alpha1.ResourceRule{APIVersion: apiVersion, Resource: resource},
			UpdateStrategy: &v1alpha1.CompositeControllerChildUpdateStrategy{Method: method}}
	}
	spec := specWith(t, func(s *v1alpha1.CompositeControllerSpec) {
		s.ChildResources = []v1alpha1.CompositeControllerChildResourceRule{
			rolling("v1", "configmaps", v1alpha1.ChildUpdateRollingInPlace), rolling("example.com/v1", "plains", v1alpha1.ChildUpdateRollingInPlace),
			rolling("example.com/v1", "things", v1alpha1.ChildUpdateInPlace),
		}
	})
	child := func(apiVersion, kind, name string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`, apiVersion, kind, name)
	}
	desired := answerOf(t, spec, parentWith(""), wants(child("example.com/v1", "Plain", "one"), child("v1", "ConfigMap", "two"), child("example.com/v1", "Thing", "three"),
		child("example.com/v1", "Plain", "four"), child("v1", "ConfigMap", "five"))).desired
	var order, others []string
	for turn, place := range desired.turns {
		if desired.list[place].turn != turn {
			t.Errorf("%s has the turn %d, want %d", desired.list[place].key(), desired.list[place].turn, turn)
		}
		order = append(order, desired.list[place].key().String())
	}
	for i := range desired.list {
		if child := &desired.list[i]; child.turn == notRolling {
			others = append(others, child.key().String())
		}
	}
	if diff := cmp.Diff([]string{"Plain ns/one", "ConfigMap ns/two", "Plain ns/four", "ConfigMap ns/five"}, order); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Thing ns/three"}, others); diff != "" {
		t.Error(diff)
	}
	for place := range desired.list {
		for hint := range len(desired.list) + 1 {
			if found := desired.find(desired.list[place].key(), hint); found != &desired.list[place] {
				t.Errorf("%s is not found from place %d", desired.list[place].key(), hint)
			}
		}
	}
	if found := desired.find(configMaps.key("ns", "six"), 0); found != nil {
		t.Errorf("%s is found", found.key())
	}
}
