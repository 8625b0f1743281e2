// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// This file makes a RawObject a metav1.Object, as client-go's Reflector wants it. The getters here parse the JSON each time;
// what the cache itself asks for is in the header.

var _ metav1.Object = &RawObject{}

// metadata reads what is not in the header.
func (o *RawObject) metadata() metav1.ObjectMeta {
	var object struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if o.Decode(&object) != nil {
		return metav1.ObjectMeta{}
	}
	return object.Metadata
}

// GetGenerateName implements metav1.Object.
func (o *RawObject) GetGenerateName() string { return o.metadata().GenerateName }

// GetSelfLink returns "": no API server sets it any more.
func (o *RawObject) GetSelfLink() string { return "" }

// GetCreationTimestamp implements metav1.Object.
func (o *RawObject) GetCreationTimestamp() metav1.Time { return o.metadata().CreationTimestamp }

// GetDeletionGracePeriodSeconds implements metav1.Object.
func (o *RawObject) GetDeletionGracePeriodSeconds() *int64 {
	return o.metadata().DeletionGracePeriodSeconds
}

// GetLabels makes a map of the labels. To match a selector, Labels is cheaper.
func (o *RawObject) GetLabels() map[string]string {
	if len(o.labels) == 0 {
		return nil
	}
	set := make(map[string]string, len(o.labels))
	for _, label := range o.labels {
		set[o.string(label.key)] = o.string(label.value)
	}
	return set
}

// GetAnnotations implements metav1.Object.
func (o *RawObject) GetAnnotations() map[string]string { return o.metadata().Annotations }

// GetFinalizers implements metav1.Object. Most objects have none, and need not be read to know it.
func (o *RawObject) GetFinalizers() []string {
	if !strings.Contains(o.JSON(), `"finalizers"`) {
		return nil
	}
	return o.metadata().Finalizers
}

// GetOwnerReferences returns all owners, not only the controller.
func (o *RawObject) GetOwnerReferences() []metav1.OwnerReference { return o.metadata().OwnerReferences }

// GetManagedFields implements metav1.Object.
func (o *RawObject) GetManagedFields() []metav1.ManagedFieldsEntry { return o.metadata().ManagedFields }

// immutable panics: calling a setter is a programming error.
func immutable() { panic("objectcache: a RawObject never changes") }

// SetGroupVersionKind panics, as all setters do: a RawObject never changes.
func (o *RawObject) SetGroupVersionKind(schema.GroupVersionKind) { immutable() }

// SetNamespace panics.
func (o *RawObject) SetNamespace(string) { immutable() }

// SetName panics.
func (o *RawObject) SetName(string) { immutable() }

// SetGenerateName panics.
func (o *RawObject) SetGenerateName(string) { immutable() }

// SetUID panics.
func (o *RawObject) SetUID(types.UID) { immutable() }

// SetResourceVersion panics.
func (o *RawObject) SetResourceVersion(string) { immutable() }

// SetGeneration panics.
func (o *RawObject) SetGeneration(int64) { immutable() }

// SetSelfLink panics.
func (o *RawObject) SetSelfLink(string) { immutable() }

// SetCreationTimestamp panics.
func (o *RawObject) SetCreationTimestamp(metav1.Time) { immutable() }

// SetDeletionTimestamp panics.
func (o *RawObject) SetDeletionTimestamp(*metav1.Time) { immutable() }

// SetDeletionGracePeriodSeconds panics.
func (o *RawObject) SetDeletionGracePeriodSeconds(*int64) { immutable() }

// SetLabels panics.
func (o *RawObject) SetLabels(map[string]string) { immutable() }

// SetAnnotations panics.
func (o *RawObject) SetAnnotations(map[string]string) { immutable() }

// SetFinalizers panics.
func (o *RawObject) SetFinalizers([]string) { immutable() }

// SetOwnerReferences panics.
func (o *RawObject) SetOwnerReferences([]metav1.OwnerReference) { immutable() }

// SetManagedFields panics.
func (o *RawObject) SetManagedFields([]metav1.ManagedFieldsEntry) { immutable() }
