// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TrimCache makes an informer hold objects without the metadata that no decision of its controller needs: managedFields, and all
// annotations except the named ones. Annotations may be 256 KiB of each object, and kubectl apply puts the whole object into one. It has to
// be called before the informer is started; it has no effect on a running informer.
//
// A controller must not update such an object as a whole, or the dropped metadata would be lost: controllers apply, patch, and write statuses.
func TrimCache(informer cache.SharedInformer, annotations ...string) {
	setTransform(informer, func(object any) (any, error) {
		if object, ok := object.(metav1.Object); ok {
			TrimMetadata(object, annotations...)
		}
		return object, nil
	})
}

// TrimCacheOf does the same with a function that trims objects of the type T in place. It may be called with an object that it has trimmed.
func TrimCacheOf[T any](informer cache.SharedInformer, trim func(T)) {
	setTransform(informer, func(object any) (any, error) {
		if object, ok := object.(T); ok { // otherwise it is a tombstone
			trim(object)
		}
		return object, nil
	})
}

func setTransform(informer cache.SharedInformer, transform cache.TransformFunc) {
	_ = informer.SetTransform(transform) // the error means that the informer has started, and then its first user has set the same
}

// TrimMetadata drops managedFields, and all annotations except the named ones.
func TrimMetadata(object metav1.Object, annotations ...string) {
	object.SetManagedFields(nil)
	has := object.GetAnnotations()
	var kept map[string]string // a new one: a map keeps the room of entries that are deleted
	for _, key := range annotations {
		if value, ok := has[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	object.SetAnnotations(kept)
}
