// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
)

var kindMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "CompositeController"}

// desiredTree is a child as the hook desires it, with its namespace and the label by which it is found.
func (r *rules) desiredTree(parent object, child *hook.Child) (map[string]any, error) {
	var tree map[string]any
	if err := utiljson.Unmarshal(child.JSON, &tree); err != nil {
		return nil, fmt.Errorf("reading the desired %s: %w", child, err)
	}
	metadata, ok := tree["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("reading the desired %s: its metadata is no object", child)
	}
	if child.Namespace != "" {
		metadata["namespace"] = child.Namespace
	}
	if r.generateSelector && !child.Labels.Has(labelControllerUID) {
		own, _ := metadata["labels"].(map[string]any)
		own = maps.Clone(own)
		if own == nil {
			own = map[string]any{}
		}
		own[labelControllerUID] = string(parent.GetUID())
		metadata["labels"] = own
	}
	return tree, nil
}

// systemFields of the metadata are set by the API server. A hook that returns a child as it got it, or as it was before it was deleted, gives them
// too: with a resourceVersion the API server creates nothing.
var systemFields = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"}

// newChild is a desired child as it is created: with the record of what was applied, and with its owner.
func (r *rules) newChild(parent object, desired map[string]any) (map[string]any, error) {
	created, err := merge.WithLastApplied(desired)
	if err != nil {
		return nil, err
	}
	if err := checkAnnotations(created); err != nil {
		return nil, err
	}
	metadata := maps.Clone(created["metadata"].(map[string]any))
	for _, field := range systemFields {
		delete(metadata, field)
	}
	created["metadata"] = metadata
	owners, _ := metadata["ownerReferences"].([]any)
	for _, owner := range owners {
		if reference, ok := owner.(map[string]any); ok && reference["uid"] == string(parent.GetUID()) {
			return created, nil
		}
	}
	metadata["ownerReferences"] = append(owners[:len(owners):len(owners)], r.ownerReference(parent))
	return created, nil
}

// ownerReference makes the parent the controller of an object.
func (r *rules) ownerReference(parent object) map[string]any {
	return map[string]any{
		"apiVersion":         r.parent.apiVersion(),
		"kind":               r.parent.Kind,
		"name":               parent.GetName(),
		"uid":                string(parent.GetUID()),
		"controller":         true,
		"blockOwnerDeletion": true,
	}
}

// childLabels are those that a desired child will have.
func (r *rules) childLabels(parent object, child *hook.Child) labels.Labels {
	if r.generateSelector && !child.Labels.Has(labelControllerUID) {
		return withUID{child.Labels, string(parent.GetUID())}
	}
	return child.Labels
}

// withUID are labels with that of the controller's UID.
type withUID struct {
	hook.Labels
	uid string
}

func (l withUID) Lookup(key string) (string, bool) {
	if key == labelControllerUID {
		return l.uid, true
	}
	return l.Labels.Lookup(key)
}

func (l withUID) Has(key string) bool { return key == labelControllerUID || l.Labels.Has(key) }

func (l withUID) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}
