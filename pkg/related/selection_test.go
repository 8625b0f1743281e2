// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/hook"
)

func TestTheSumChangesWithWhatIsSelected(t *testing.T) {
	w := newWorld(t, func(n int) int { return n - 1 }) // creates objects with no labels
	rules := compile(t, v2Parent, `{"apiVersion":"v1","resource":"configmaps","names":["a"]}`, `{"apiVersion":"v1","resource":"nodes","names":["a"]}`)
	seen := map[uint64]string{}
	for _, step := range []struct {
		what string
		do   func()
		same bool
	}{
		{"nothing", func() {}, false},
		{"a ConfigMap", func() { w.change(configMaps, "n1", "a") }, false},
		{"again", func() {}, true},
		{"a new version", func() { w.change(configMaps, "n1", "a") }, false},
		{"another one that is not selected", func() { w.change(configMaps, "n1", "b") }, true},
		{"one in another namespace", func() { w.change(configMaps, "n2", "a") }, false},
		{"a Node of that name", func() { w.change(nodes, "", "a") }, false},
	} {
		step.do()
		sum := rules.Select(w).Sum
		if before, found := seen[sum]; found != step.same {
			t.Errorf("%s: the sum was seen before: %t (%s)", step.what, found, before)
		}
		seen[sum] = step.what
	}
}

func TestATypeWithoutObjectsIsInTheSelection(t *testing.T) {
	w := newWorld(t, func(n int) int { return n - 1 })
	w.change(configMaps, "n1", "a")
	got := compile(t, v2Parent, `{"apiVersion":"v1","resource":"secrets","names":[""]}`, `{"apiVersion":"apps/v1","resource":"deployments"}`,
		`{"apiVersion":"v1","resource":"configmaps","names":["a"]}`, `{"apiVersion":"v1","resource":"configmaps","namespace":"n1"}`).Select(w).Groups
	want := []hook.Group{
		{APIVersion: "v1", Kind: "ConfigMap", Objects: []hook.Object{{Namespace: "n1", Name: "a", JSON: w.get(configMaps, "n1", "a").JSON()}}},
		{APIVersion: "v1", Kind: "Secret", Objects: []hook.Object{}},
		{APIVersion: "apps/v1", Kind: "Deployment", Objects: []hook.Object{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if groups := compile(t, v2Parent).Select(w).Groups; len(groups) > 0 {
		t.Errorf("an answer without rules selects %v", groups)
	}
}
