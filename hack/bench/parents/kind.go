// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package parents is what a CompositeController is measured with: a kind of parents, whose specs say what their hook is to answer,
// and that hook.
package parents

import (
	_ "embed"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CRD of the parents.
//
//go:embed crd.yaml
var CRD []byte

// Resource of the parents.
var Resource = schema.GroupVersionResource{Group: "bench.millwright.dev", Version: "v1", Resource: "parents"}

// Kind of the parents.
const Kind = "Parent"

// Label has the name of its parent on a child. The selector of each parent asks for it.
const Label = "parent"

// Spec of a parent.
type Spec struct {
	// Children is how many ConfigMaps there are to be, and Size about how many bytes of data each has.
	Children int `json:"children"`
	Size     int `json:"size,omitempty"`
	// Value stands in each child, and in the status.
	Value string `json:"value"`
	// ResyncAfterSeconds is what the hook asks for.
	ResyncAfterSeconds float64 `json:"resyncAfterSeconds,omitempty"`
	// Selector of the children; New fills it in.
	Selector *metav1.LabelSelector `json:"selector"`
}

// Object is what the hook reads of a parent.
type Object struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec `json:"spec"`
}

// New returns a parent.
func New(namespace, name string, labels map[string]string, spec Spec) (*unstructured.Unstructured, error) {
	spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{Label: name}}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return nil, fmt.Errorf("encoding the spec of %s %s/%s: %w", Kind, namespace, name, err)
	}
	parent := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	parent.SetAPIVersion(Resource.GroupVersion().String())
	parent.SetKind(Kind)
	parent.SetNamespace(namespace)
	parent.SetName(name)
	parent.SetLabels(labels)
	return parent, nil
}

// Converged tells whether the status of a parent was written about its spec as it is.
func Converged(parent *unstructured.Unstructured) bool {
	observed, found, err := unstructured.NestedInt64(parent.Object, "status", "observedGeneration")
	return found && err == nil && observed == parent.GetGeneration()
}
