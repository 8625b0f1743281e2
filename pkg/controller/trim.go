// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TrimCache makes an informer hold objects without the metadata from which no decision of its controller is made: managedFields, and
// all annotations but those that are named. Annotations may be 256 KiB of each object, and kubectl apply puts the whole object into
// one. It has to be called before the informer is started; on one that runs already it changes nothing.
//
// What is written must not be made from such an object as a whole, or the rest would be lost: controllers apply, patch, and write statuses.
func TrimCache(informer cache.SharedInformer, annotations ...string) {
	setTransform(informer, func(object any) (any, error) {
		if object, ok := object.(metav1.Object); ok {
			TrimMetadata(object, annotations...)
		}
		return object, nil
	})
}

// TrimCacheOf likewise, by a function that trims objects of the type T in place. It may be called with an object that it has trimmed.
func TrimCacheOf[T any](informer cache.SharedInformer, trim func(T)) {
	setTransform(informer, func(object any) (any, error) {
		if object, ok := object.(T); ok { // else it is what is left of an object that was deleted unseen
			trim(object)
		}
		return object, nil
	})
}

func setTransform(informer cache.SharedInformer, transform cache.TransformFunc) {
	_ = informer.SetTransform(transform) // the error means that the informer has started, and then its first user has set the same
}

// TrimMetadata drops managedFields, and all annotations but those that are named.
func TrimMetadata(object metav1.Object, annotations ...string) {
	object.SetManagedFields(nil)
	has := object.GetAnnotations()
	if len(has) == 0 {
		return
	}
	maps.DeleteFunc(has, func(key, _ string) bool { return !slices.Contains(annotations, key) })
	if len(has) == 0 {
		has = nil
	}
	object.SetAnnotations(has)
}
