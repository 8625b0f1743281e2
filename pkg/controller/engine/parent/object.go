// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"hash/maphash"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// object is a parent or a child as it is observed: a header, and the whole object as JSON. It is never changed.
type object interface {
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
	GetGeneration() int64
	GetFinalizers() []string
	Labels() labels.Labels
	// ControllerUID is the UID of the controller owner, "" if there is none.
	ControllerUID() types.UID
	Deleting() bool
	// JSON is the whole object. Decode reads it into a struct.
	JSON() string
	Decode(into any) error
}

// treeOf returns the whole object as a tree whose whole numbers are int64.
func treeOf(o object) (tree map[string]any, err error) {
	err = utiljson.Unmarshal([]byte(o.JSON()), &tree)
	return tree, err
}

// annotationOf returns the value of an annotation, "" if there is none.
func annotationOf(o object, key string) string {
	if !strings.Contains(o.JSON(), key) {
		return "" // most objects need not be read to know it
	}
	metadata, err := metadataOf(o)
	if err != nil {
		return ""
	}
	return metadata.Annotations[key]
}

// nameIn returns "name", or "namespace/name" for a namespaced object.
func nameIn(o object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// versionHash returns a hash of the version of an object. Hashes of several objects are combined by XOR.
func versionHash(o object) uint64 {
	var hash maphash.Hash
	hash.SetSeed(seed)
	_, _ = hash.WriteString(string(o.GetUID())) // never fails
	_ = hash.WriteByte(' ')
	_, _ = hash.WriteString(o.GetResourceVersion())
	return hash.Sum64()
}

func hasFinalizer(o object, finalizer string) bool {
	return slices.Contains(o.GetFinalizers(), finalizer)
}

// Resource is a type of objects as the API server serves it.
type Resource struct {
	schema.GroupVersionResource
	Kind string
	// Namespaced is false for cluster-scoped objects.
	Namespaced bool
	// Status reports whether there is a status subresource.
	Status bool
}

// apiVersion returns the apiVersion of objects.
func (r Resource) apiVersion() string { return r.GroupVersion().String() }

// childKey identifies a child, in whatever version.
type childKey struct {
	group, kind     string
	namespace, name string
}

func (r Resource) key(namespace, name string) childKey {
	return childKey{r.Group, r.Kind, namespace, name}
}

func (k childKey) String() string {
	if k.namespace == "" {
		return k.kind + " " + k.name
	}
	return k.kind + " " + k.namespace + "/" + k.name
}
