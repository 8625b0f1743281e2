// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// object is a parent or a child as it is observed: a header, and the whole as JSON. It is never changed.
type object interface {
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
	GetGeneration() int64
	GetFinalizers() []string
	Labels() labels.Labels
	// ControllerUID is that of the owner that is its controller, "" if there is none.
	ControllerUID() types.UID
	Deleting() bool
	// JSON is the whole object, and Decode reads it into a struct.
	JSON() string
	Decode(into any) error
}

// treeOf is the whole object as a tree with integers.
func treeOf(o object) (tree map[string]any, err error) {
	err = utiljson.Unmarshal([]byte(o.JSON()), &tree)
	return tree, err
}

// resource is a type of objects as the API server serves it.
type resource struct {
	schema.GroupVersionResource
	Kind string
	// Namespaced is false for cluster-scoped objects, and Status tells whether there is a status subresource.
	Namespaced, Status bool
}

// apiVersion as it stands in objects.
func (r resource) apiVersion() string { return r.GroupVersion().String() }

// childKey is what a child is unique by, in whatever version.
type childKey struct {
	group, kind     string
	namespace, name string
}

func (r resource) key(namespace, name string) childKey {
	return childKey{r.Group, r.Kind, namespace, name}
}

func (k childKey) String() string {
	if k.namespace == "" {
		return k.kind + " " + k.name
	}
	return k.kind + " " + k.namespace + "/" + k.name
}

func hasFinalizer(o object, finalizer string) bool {
	return slices.Contains(o.GetFinalizers(), finalizer)
}
