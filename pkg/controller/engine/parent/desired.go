// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
)

// desiredTree returns a child as the hook desires it, with its namespace and with what makes it found again: the label that its selector matches,
// or the annotation of an attachment.
func (spec *Spec) desiredTree(parent object, child *hook.Child) (map[string]any, error) {
	var tree map[string]any
	if err := utiljson.Unmarshal(child.JSON, &tree); err != nil {
		return nil, fmt.Errorf("reading the desired %s: %w", child, err)
	}
	metadata, ok := tree["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("reading the desired %s: its metadata is not an object", child)
	}
	if child.Namespace != "" {
		metadata["namespace"] = child.Namespace
	}
	if spec.generateSelector && !child.Labels.Has(labelControllerUID) {
		own, _ := metadata["labels"].(map[string]any)
		own = maps.Clone(own)
		if own == nil {
			own = map[string]any{}
		}
		own[labelControllerUID] = string(parent.GetUID())
		metadata["labels"] = own
	}
	own, _ := metadata["annotations"].(map[string]any)
	switch _, set := own[annotationDecorator]; {
	case spec.kind == Decorator:
		if own = maps.Clone(own); own == nil {
			own = map[string]any{}
		}
		own[annotationDecorator] = spec.name
		metadata["annotations"] = own
	case set:
		// The hook may have copied it from the parent, which is an attachment. The child is none.
		own = maps.Clone(own)
		delete(own, annotationDecorator)
		metadata["annotations"] = own
	}
	return tree, nil
}

// systemFields are the fields of the metadata that the API server sets. A hook that returns a child as it got it sets them too, and the API server
// creates no object that has a resourceVersion.
var systemFields = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"}

// newChild returns a desired child as it is created, or applied: with the record of what is applied, and its owner.
func (spec *Spec) newChild(of *parentType, parent object, desired map[string]any) (map[string]any, error) {
	withRecord := merge.WithLastApplied
	if spec.serverSide {
		withRecord = merge.WithAppliedHash
	}
	created, err := withRecord(desired)
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
	metadata["ownerReferences"] = of.withOwnerReference(owners, parent)
	return created, nil
}

// withOwnerReference returns the owner references of a child with the parent as its controller. Where the hook refers to the parent itself, only its choice
// of blockOwnerDeletion remains: a child whose controller is not the parent would not be observed.
func (t *parentType) withOwnerReference(owners []any, parent object) []any {
	own := t.ownerReference(parent)
	others := slices.DeleteFunc(slices.Clone(owners), func(owner any) bool {
		reference, _ := owner.(map[string]any)
		if reference["uid"] != own["uid"] {
			return false
		}
		if blocks, ok := reference["blockOwnerDeletion"].(bool); ok {
			own["blockOwnerDeletion"] = blocks
		}
		return true
	})
	return append(others, own)
}

// ownerReference returns the owner reference that makes the parent the controller of an object.
func (t *parentType) ownerReference(parent object) map[string]any {
	return map[string]any{
		"apiVersion":         t.apiVersion(),
		"kind":               t.Kind,
		"name":               parent.GetName(),
		"uid":                string(parent.GetUID()),
		"controller":         true,
		"blockOwnerDeletion": true,
	}
}

// withStatus returns the parent with a status, encoded.
func withStatus(parent object, status map[string]any) ([]byte, error) {
	tree, err := treeOf(parent)
	if err != nil {
		return nil, err
	}
	tree["status"] = status
	body, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("encoding the status in the answer of the hook: %w", err)
	}
	return body, nil
}

// withFinalizers returns an object with other finalizers, encoded.
func withFinalizers(o object, finalizers []string) ([]byte, error) {
	tree, err := treeOf(o)
	if err != nil {
		return nil, err
	}
	setOrDelete(tree["metadata"].(map[string]any), "finalizers", finalizers)
	return json.Marshal(tree)
}

// finalizersPatch returns the JSON merge patch that sets the finalizers of an object, with the observed resourceVersion as a precondition.
func finalizersPatch(o interface{ GetResourceVersion() string }, finalizers []string) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": o.GetResourceVersion(), "finalizers": finalizers}})
}

// withOwner returns an object encoded with the parent as its controller, or without it among the owners.
func (t *parentType) withOwner(o, parent object, own bool) ([]byte, error) {
	tree, err := treeOf(o)
	if err != nil {
		return nil, err
	}
	metadata := tree["metadata"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	owners = slices.DeleteFunc(owners, func(owner any) bool {
		reference, ok := owner.(map[string]any)
		return ok && reference["uid"] == string(parent.GetUID())
	})
	if own {
		owners = append(owners, t.ownerReference(parent))
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, annotationDecorator) // it is no attachment from now on
		}
	}
	setOrDelete(metadata, "ownerReferences", owners)
	return json.Marshal(tree)
}

func setOrDelete[T any](metadata map[string]any, field string, list []T) {
	if len(list) == 0 {
		delete(metadata, field)
	} else {
		metadata[field] = list
	}
}
