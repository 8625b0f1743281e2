// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// selectObjects returns an informer of the objects of a kind that the options select, for a controller that needs only few of them. It runs
// as long as the shared informers do, and is not shared.
func (s *shared) selectObjects(resource schema.GroupVersionResource, namespace string, options func(*metav1.ListOptions)) cache.SharedIndexInformer {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(s.dynamic, 0, namespace, options)
	s.selections = append(s.selections, factory)
	return factory.ForResource(resource).Informer()
}
