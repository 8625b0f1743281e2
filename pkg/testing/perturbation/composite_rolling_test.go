// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metacontroller "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/perturbation"
	"millwright.dev/pkg/testing/testcluster"
)

var revisions = metacontroller.Resource("controllerrevisions").WithVersion(metacontroller.GroupVersion.Version)

// rolled are the rules for children that are moved to another value one by one.
var rolled = []any{
	map[string]any{"apiVersion": "v1", "resource": "configmaps", "updateStrategy": map[string]any{"method": "RollingInPlace"}},
	map[string]any{"apiVersion": "v1", "resource": "secrets", "updateStrategy": map[string]any{"method": "RollingRecreate"}},
}

func TestRollingUpdate(t *testing.T) {
	hook := startWidgetHook(t)
	given := func(e end) []perturbation.Act {
		return []perturbation.Act{
			act("create the CompositeController, which rolls", hook.serve(serving{rolling: true}), end{noParent: true}.reached),
			act("create the parent", makeWidget(e), rolledTo(e)),
		}
	}
	sized := func(value string, secrets int) end { return end{value: value, configMaps: 1, secrets: secrets} }
	const background = metav1.DeletePropagationBackground
	tests := map[string]struct {
		given end
		acts  []perturbation.Act
		// children are as in TestCompositeController, nil where they depend on how far a rolling update comes before the next edit.
		children map[string]lives
	}{
		"roll": {
			given:    sized("a", 2),
			acts:     []perturbation.Act{act("edit", editWidget(spec{"value": "b"}), rolledTo(sized("b", 2)))},
			children: map[string]lives{"configmaps/web-0": {{"a", "b"}}, "secrets/web-0": {{"a"}, {"b"}}, "secrets/web-1": {{"a"}, {"b"}}},
		},
		"roll again": {
			given: sized("a", 3),
			acts:  []perturbation.Act{act("edit twice", in(editWidget(spec{"value": "b"}), editWidget(spec{"value": "c"})), rolledTo(sized("c", 3)))},
		},
		"roll back": {
			given: sized("a", 3),
			acts:  []perturbation.Act{act("edit, and revert", in(editWidget(spec{"value": "b"}), editWidget(spec{"value": "a"})), rolledTo(sized("a", 3)))},
		},
		"scale down during a roll": {
			given: sized("a", 3),
			acts:  []perturbation.Act{act("edit, and scale", in(editWidget(spec{"value": "b"}), editWidget(spec{"secrets": 2})), rolledTo(sized("b", 2)))},
		},
		"scale up during a roll": {
			given: sized("a", 2),
			acts:  []perturbation.Act{act("edit, and scale", in(editWidget(spec{"value": "b"}), editWidget(spec{"secrets": 3})), rolledTo(sized("b", 3)))},
		},
		"revisions deleted": {
			given: sized("a", 3),
			acts: []perturbation.Act{
				act("delete the records, and edit", in(removeRevisions, editWidget(spec{"value": "b"}), removeRevisions), rolledTo(sized("b", 3))),
			},
		},
		"child deleted during a roll": {
			given: sized("a", 3),
			acts: []perturbation.Act{
				act("edit, and delete the last child", in(editWidget(spec{"value": "b"}), removeAny(secrets, "web-2", background)), rolledTo(sized("b", 3))),
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mostAway := 1
			if strings.HasPrefix(name, "child deleted") {
				mostAway = 2 // one of them by the user
			}
			invariants := []perturbation.Invariant{{Name: "children are recreated one by one", Check: oneIsAway(test.given.secrets, mostAway)}}
			if test.children != nil {
				invariants = append(invariants, perturbation.Invariant{Name: "children pass through the requested states", Check: childrenPassThrough(test.children)})
			}
			perturbation.Test(t, testcluster.Shared(t), perturbation.Scenario{
				Name: name, Given: given(test.given), Acts: test.acts,
				Start:         startCompositeControllers,
				Resources:     []schema.GroupVersionResource{composites, widgets, configMaps, secrets, revisions},
				ClusterScoped: []schema.GroupVersionResource{composites},
				Normalize:     withoutRevisionNames,
				Invariants:    invariants,
			})
		})
	}
}

// rolledTo reports whether the children are in a state, and all have the latest revision.
func rolledTo(e end) until {
	return func(ctx context.Context, user *perturbation.User) (bool, error) {
		if done, err := e.reached(ctx, user); !done || err != nil {
			return false, err
		}
		parent, err := user.Get(ctx, widgets, name)
		if err != nil {
			return false, err
		}
		all := e.configMaps + e.secrets
		conditions, _, _ := unstructured.NestedSlice(parent.Object, "status", "conditions")
		for _, c := range conditions {
			condition := c.(map[string]any)
			want := fmt.Sprintf("%d of %d children have the latest revision; latest", all, all)
			if condition["type"] == "Updated" && condition["status"] == "True" && strings.HasPrefix(condition["message"].(string), want) {
				return true, nil
			}
		}
		return false, fmt.Errorf("the conditions of the parent are %v", conditions)
	}
}

// removeRevisions deletes all ControllerRevisions.
func removeRevisions(ctx context.Context, user *perturbation.User) error {
	return user.Objects(revisions).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// removeAny deletes an object, which may be deleted already.
func removeAny(resource schema.GroupVersionResource, name string, propagation metav1.DeletionPropagation) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		err := remove(resource, name, propagation)(ctx, user)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// revisionHash is the part of the name of a ControllerRevision that depends on the UID of the parent.
var revisionHash = regexp.MustCompile(`-[0-9a-f]{40}$`)

// withoutRevisionNames removes from a ControllerRevision and from the condition Updated what depends on the UID of the parent.
func withoutRevisionNames(object *unstructured.Unstructured) {
	object.SetName(revisionHash.ReplaceAllString(object.GetName(), ""))
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition := c.(map[string]any)
		condition["message"] = revisionHash.ReplaceAllString(fmt.Sprint(condition["message"]), "")
	}
	if len(conditions) > 0 {
		_ = unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions")
	}
}

// oneIsAway checks that of the Secrets that the parent had at first, after all were created, not more than some are away at a time before the
// last of them has its final value. Those that were scaled down do not count.
func oneIsAway(size, most int) func([]perturbation.Change) error {
	return func(history []perturbation.Change) error {
		last := map[string]int{} // the last change of each
		for i, change := range history {
			if child := childOf(change); strings.HasPrefix(child, secrets.Resource) {
				last[child] = i
			}
		}
		live, begun := map[string]bool{}, false
		for i, change := range history {
			child := childOf(change)
			if !strings.HasPrefix(child, secrets.Resource) || change.Deleted && last[child] == i {
				continue
			}
			live[child] = !change.Deleted
			away := 0
			for _, there := range live {
				if !there {
					away++
				}
			}
			begun = begun || len(live) == size
			if begun && away > most {
				return fmt.Errorf("%d children are away after the deletion of %s in version %s", away, child, change.Object.GetResourceVersion())
			}
		}
		return nil
	}
}
