// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metacontroller "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/merge"
	"millwright.dev/pkg/testing/perturbation"
	"millwright.dev/pkg/testing/testcluster"
)

const (
	dynamicApply = metacontroller.ApplyDynamic
	serverSide   = metacontroller.ApplyServerSide
)

// TestApplyStrategy: children are the same whichever strategy applies them, and at whichever write it is switched.
func TestApplyStrategy(t *testing.T) {
	hook := startWidgetHook(t)
	const background = metav1.DeletePropagationBackground
	both := end{value: "a", configMaps: 1, secrets: 1}
	edited := end{value: "b", configMaps: 1, secrets: 1}
	tests := map[string]struct {
		from     metacontroller.ApplyStrategy
		acts     []perturbation.Act
		children map[string]lives
	}{
		"server-side apply": {
			from: serverSide,
			acts: []perturbation.Act{
				act("edit", editWidget(spec{"value": "b", "keys": nil}), withKeys(edited)),
				act("another client edits a child", patch(configMaps, "web-0", map[string]any{"data": map[string]any{"value": "drift", "theirs": "x"}}), withKeys(edited, "theirs")),
				act("another client deletes a child", remove(configMaps, "web-0", background), withKeys(edited)),
			},
			children: map[string]lives{"configmaps/web-0": {{"a", "b", "drift", "b"}, {"b"}}, "secrets/web-0": {{"a"}, {"b"}}},
		},
		"to server-side apply": {from: dynamicApply, acts: switchActs(serverSide, both, edited), children: switchLives},
		"to dynamic apply":     {from: serverSide, acts: switchActs(dynamicApply, both, edited), children: switchLives},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			perturbation.Test(t, testcluster.Shared(t), perturbation.Scenario{
				Name: name,
				Given: []perturbation.Act{
					act("create the CompositeController", hook.serve(serving{strategy: test.from}), end{noParent: true}.reached),
					act("create the parent", in(makeWidget(both), editWidget(spec{"keys": []any{"more"}})), withKeys(both, "more")),
				},
				Acts:          test.acts,
				Start:         startCompositeControllers,
				Resources:     []schema.GroupVersionResource{composites, widgets, configMaps, secrets},
				ClusterScoped: []schema.GroupVersionResource{composites},
				Normalize:     withoutRecords,
				Invariants:    []perturbation.Invariant{{Name: "children pass through the requested states", Check: childrenPassThrough(test.children)}},
			})
		})
	}
}

// switchActs switch the strategy, then edit, and switch it back with another edit before all is done.
func switchActs(to metacontroller.ApplyStrategy, before, after end) []perturbation.Act {
	from := map[metacontroller.ApplyStrategy]metacontroller.ApplyStrategy{dynamicApply: serverSide, serverSide: dynamicApply}[to]
	return []perturbation.Act{
		act("switch the strategy", switchTo(to), withKeys(before, "more")),
		act("edit", editWidget(spec{"value": "b", "keys": nil}), withKeys(after)),
		act("switch back, and edit", in(switchTo(from), editWidget(spec{"value": "a", "keys": []any{"more"}})), withKeys(before, "more")),
	}
}

// withoutRecords removes what only shows which strategy has written a child last, at the time of a switch.
func withoutRecords(object *unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	maps.DeleteFunc(annotations, func(annotation, _ string) bool { return merge.IsRecord(annotation) })
	object.SetAnnotations(annotations)
}

var switchLives = map[string]lives{"configmaps/web-0": {{"a", "b", "a"}}, "secrets/web-0": {{"a"}, {"b"}, {"a"}}}

func switchTo(strategy metacontroller.ApplyStrategy) doing {
	return patch(composites, "", map[string]any{"spec": spec{"applyStrategy": string(strategy)}})
}

// withKeys reports whether the children are in a state, and the ConfigMap has these keys besides its value, so that no field is orphaned.
func withKeys(e end, keys ...string) until {
	want := slices.Sorted(slices.Values(append(keys, "value")))
	return func(ctx context.Context, user *perturbation.User) (bool, error) {
		if done, err := e.reached(ctx, user); !done || err != nil {
			return false, err
		}
		child, err := user.Get(ctx, configMaps, "web-0")
		if err != nil {
			return false, err
		}
		data, _, _ := unstructured.NestedStringMap(child.Object, "data")
		if got := slices.Sorted(maps.Keys(data)); !slices.Equal(got, want) {
			return false, fmt.Errorf("got the keys %q of the ConfigMap, want %q", got, want)
		}
		return true, nil
	}
}
