// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The acts and the invariants of the toys.

func createParent() Act {
	return Act{Name: "create the parent", Do: makeParent, Until: childCount(1)}
}

func makeParent(ctx context.Context, user *User) error {
	_, err := user.Client.Resource(configMaps).Namespace(user.Namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "parent"},
	}}, metav1.CreateOptions{})
	return err
}

func removeParent(ctx context.Context, user *User) error {
	return user.Client.Resource(configMaps).Namespace(user.Namespace).Delete(ctx, "parent", metav1.DeleteOptions{})
}

// cleanUpSyncs is how many syncs without a parent a toy has to delete the children: one that forgets them never does.
const cleanUpSyncs = 20

func deleteParent() Act {
	var before int64
	return Act{
		Name: "delete the parent",
		Do: func(ctx context.Context, user *User) error {
			before = syncsWithoutParent(user.Namespace).Load()
			return removeParent(ctx, user)
		},
		Until: func(ctx context.Context, user *User) (bool, error) {
			children, err := user.Client.Resource(configMaps).Namespace(user.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "child"})
			return err == nil && (len(children.Items) == 0 || syncsWithoutParent(user.Namespace).Load() >= before+cleanUpSyncs), err
		},
	}
}

func recreateParent(ctx context.Context, user *User) error {
	return errors.Join(removeParent(ctx, user), makeParent(ctx, user))
}

func childCount(atLeast int) func(context.Context, *User) (bool, error) {
	return func(ctx context.Context, user *User) (bool, error) {
		children, err := user.Client.Resource(configMaps).Namespace(user.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "child"})
		if err != nil {
			return false, err
		}
		return len(children.Items) >= atLeast, nil
	}
}

func atMostOneChild(history []Change) error {
	children := map[string]bool{}
	for _, change := range history {
		if change.Object.GetLabels()["child"] == "" {
			continue
		}
		children[change.Object.GetName()] = !change.Deleted
		live := 0
		for _, exists := range children {
			if exists {
				live++
			}
		}
		if live > 1 {
			return fmt.Errorf("got %d children at version %s, want at most 1", live, change.Object.GetResourceVersion())
		}
	}
	return nil
}

// childIsOfParent checks only the final state: on the way a child may wait for its deletion.
func childIsOfParent(history []Change) error {
	var parent, owner string
	for _, change := range history {
		switch {
		case change.Object.GetName() == "parent" && !change.Deleted:
			parent = string(change.Object.GetUID())
		case change.Object.GetLabels()["child"] != "" && !change.Deleted:
			owner, _, _ = unstructured.NestedString(change.Object.Object, "data", "parent")
		}
	}
	if owner != parent {
		return fmt.Errorf("got a child of %s, want one of the parent %s", owner, parent)
	}
	return nil
}
