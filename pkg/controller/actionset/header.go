// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/jsonscan"
)

const (
	// smallObject is the size of an ActionSet up to which the cache holds it, and of a Blueprint up to which it is decoded at any time, in bytes of JSON.
	smallObject = 32 << 10
	// smallMemory is how much memory an ActionSet may take that the cache holds, in bytes: one with many small values takes many times its size.
	smallMemory = 128 << 10
)

// annotationHeader marks what the cache holds of a larger ActionSet. One on which a user sets it is read in each sync.
const annotationHeader = "millwright.dev/header"

// trimSet replaces a large ActionSet by a header: what identifies it, whether it is cancelled, and its age and conditions, for metrics. A sync reads the
// whole one. Smaller ones stay as they are, since their status is written with their metadata.
func trimSet(set *v1alpha1.ActionSet) {
	if content, err := json.Marshal(set); err != nil || len(content) <= smallObject && jsonscan.DecodedMemory(content) <= smallMemory { // also a header
		return
	}
	header := v1alpha1.ActionSet{TypeMeta: set.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion, CreationTimestamp: set.CreationTimestamp,
		DeletionTimestamp: set.DeletionTimestamp, Annotations: map[string]string{annotationHeader: ""},
	}}
	if set.Status != nil {
		header.Status = &v1alpha1.ActionSetStatus{}
		for _, condition := range set.Status.Conditions {
			condition.Message = ""
			header.Status.Conditions = append(header.Status.Conditions, condition)
		}
	}
	if set.Spec != nil && set.Spec.Cancel {
		header.Spec = &v1alpha1.ActionSetSpec{Cancel: true}
	}
	*set = header
}

// trimBlueprint keeps what identifies a Blueprint, for events about it.
func trimBlueprint(b *v1alpha1.Blueprint) {
	*b = v1alpha1.Blueprint{TypeMeta: b.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: b.Namespace, Name: b.Name, UID: b.UID, ResourceVersion: b.ResourceVersion,
	}}
}

// isCancelled reports whether users want an ActionSet to end, also for a header.
func isCancelled(set *v1alpha1.ActionSet) bool {
	return set.DeletionTimestamp != nil || set.Spec != nil && set.Spec.Cancel
}

func isHeader(set *v1alpha1.ActionSet) bool {
	_, marked := set.Annotations[annotationHeader]
	return marked
}
