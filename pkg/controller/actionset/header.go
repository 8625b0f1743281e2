// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/jsonscan"
)

const (
	// smallObject is the size of an ActionSet up to which the cache holds it, and of a Blueprint up to which it is read at any time, in bytes of JSON.
	smallObject = 32 << 10
	// smallMemory is how much memory such an object may take, in bytes: one with many small values takes many times its size.
	smallMemory = 128 << 10
)

// annotationHeader marks what the cache holds of a larger ActionSet or Blueprint. For an ActionSet its value is about how much memory that takes, in bytes. One
// on which a user sets it is handled as a large one.
const annotationHeader = "millwright.dev/header"

// trimSet replaces a large ActionSet by a header: what identifies it, whether it is cancelled, whether it has long ended, and its age and conditions, for
// metrics. A sync reads the whole one. Smaller ones stay as they are, since their status is written with their metadata.
func trimSet(set *v1alpha1.ActionSet) {
	memory, large := largeMemory(set)
	if !large { // also a header
		if isHeader(set) && set.Spec != nil && len(set.Spec.Actions) > 0 {
			set.Annotations[annotationHeader] = "" // the size that a user has given
		}
		return
	}
	header := v1alpha1.ActionSet{TypeMeta: set.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion, CreationTimestamp: set.CreationTimestamp,
		DeletionTimestamp: set.DeletionTimestamp, Annotations: map[string]string{annotationHeader: strconv.Itoa(memory)},
	}}
	if slices.Contains(set.Finalizers, Finalizer) {
		header.Finalizers = []string{Finalizer} // those of users may have any size together
	}
	if set.Status != nil {
		header.Status = &v1alpha1.ActionSetStatus{StartTime: set.Status.StartTime, CompletionTime: set.Status.CompletionTime, Snapshot: set.Status.Snapshot}
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

// trimBlueprint keeps what identifies a Blueprint, for events about it, and marks a large one.
func trimBlueprint(b *v1alpha1.Blueprint) {
	var mark map[string]string
	if _, large := largeMemory(b); large || isHeader(b) {
		mark = map[string]string{annotationHeader: ""}
	}
	*b = v1alpha1.Blueprint{TypeMeta: b.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: b.Namespace, Name: b.Name, UID: b.UID, ResourceVersion: b.ResourceVersion, Annotations: mark,
	}}
}

// largeMemory reports whether an object is so large that the cache does not hold all of it, and about how much memory it takes, in bytes.
func largeMemory(object any) (memory int, large bool) {
	content, err := json.Marshal(object)
	if err != nil {
		return 0, false
	}
	memory = jsonscan.DecodedMemory(content)
	return memory, len(content) > smallObject || memory > smallMemory
}

// isCancelled reports whether users want an ActionSet to end, also for a header.
func isCancelled(set *v1alpha1.ActionSet) bool {
	return set.DeletionTimestamp != nil || set.Spec != nil && set.Spec.Cancel
}

// urgencyOf returns the urgency of an ActionSet, also for a header. One that is cancelled before it has started has nothing to stop.
func urgencyOf(set *v1alpha1.ActionSet) urgency {
	switch {
	case set.DeletionTimestamp != nil || isCancelled(set) && hasStarted(set.Status):
		return goesUnpaid
	case isCancelled(set):
		return goesFirst
	default:
		return inOrder
	}
}

// isHeader reports whether the cache holds a header of a large object.
func isHeader(object metav1.Object) bool {
	_, marked := object.GetAnnotations()[annotationHeader]
	return marked
}

// memoryOfHeader returns about how much memory the ActionSet takes of which the cache has a header, in bytes.
func memoryOfHeader(header *v1alpha1.ActionSet) int {
	memory, _ := strconv.Atoi(header.Annotations[annotationHeader])
	return max(memory, smallMemory)
}
