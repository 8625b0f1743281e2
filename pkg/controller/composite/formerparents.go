// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

import (
	"slices"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/composite/parent"
)

// The status of a CompositeController records on which types of parents its finalizer may be, before the first parent gets it. So any process
// that finds spec.parentResource edited knows the former type, and removes the finalizer from the former parents.

// parentsRecord returns what the status has to record before parents are synced. Another version of a type is the same type.
func parentsRecord(cc *v1alpha1.CompositeController) []v1alpha1.ResourceRule {
	record := cc.Status.FinalizedParents
	current := cc.Spec.ParentResource.ResourceRule
	finalizes := parent.HasFinalizeHook(&cc.Spec)
	_, err := parent.ResourceOf(current)
	switch {
	case err != nil || slices.Contains(record, current) && finalizes:
		return record
	case finalizes:
		return append(formerParents(cc), current)
	case slices.Contains(cc.Finalizers, finalizer):
		return record // parents will lose it
	default:
		return formerParents(cc)
	}
}

// formerParents returns the recorded types that are not the current type of parents.
func formerParents(cc *v1alpha1.CompositeController) []v1alpha1.ResourceRule {
	current, err := parent.ResourceOf(cc.Spec.ParentResource.ResourceRule)
	return slices.DeleteFunc(slices.Clone(cc.Status.FinalizedParents), func(recorded v1alpha1.ResourceRule) bool {
		of, invalid := parent.ResourceOf(recorded)
		return err != nil || invalid != nil || of.GroupResource() == current.GroupResource()
	})
}
