// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package engine

import (
	"slices"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
)

// The status of a declaration records on which types of parents its finalizer may be, before the first parent gets it. So any process that finds
// the types in the spec edited knows the former ones, and removes the finalizer from the former parents.

// parentsRecord returns what the status has to record before parents are synced. Another version of a type is the same type.
func parentsRecord(d *parent.Declaration) []v1alpha1.ResourceRule {
	record, current := d.Status.Finalized, currentParents(d)
	isRecorded := func(of v1alpha1.ResourceRule) bool { return slices.Contains(record, of) }
	switch {
	case !isValid(current) || d.Finalizes() && all(current, isRecorded):
		return record
	case d.Finalizes():
		return append(formerParents(d), current...)
	case hasFinalizer(d):
		return record // parents will lose it
	default:
		return formerParents(d)
	}
}

// currentParents returns the types of parents in the spec, each once.
func currentParents(d *parent.Declaration) (current []v1alpha1.ResourceRule) {
	for _, rule := range d.Parents {
		if !slices.Contains(current, rule.ResourceRule) {
			current = append(current, rule.ResourceRule)
		}
	}
	return current
}

// formerParents returns the recorded types that are not among the current types of parents; none while these are invalid, which may be a mistake.
func formerParents(d *parent.Declaration) []v1alpha1.ResourceRule {
	if !isValid(currentParents(d)) {
		return nil
	}
	return recordedOthers(d)
}

// recordedOthers returns the recorded types that are not among the current types of parents, whether these are valid or not.
func recordedOthers(d *parent.Declaration) []v1alpha1.ResourceRule {
	return slices.DeleteFunc(slices.Clone(d.Status.Finalized), func(recorded v1alpha1.ResourceRule) bool {
		of, err := parent.ResourceOf(recorded)
		return err != nil || d.HasParents(of.GroupResource())
	})
}

// isValid reports whether all rules name a type.
func isValid(rules []v1alpha1.ResourceRule) bool {
	return len(rules) > 0 && all(rules, func(rule v1alpha1.ResourceRule) bool {
		_, err := parent.ResourceOf(rule)
		return err == nil
	})
}

func all(rules []v1alpha1.ResourceRule, holds func(v1alpha1.ResourceRule) bool) bool {
	return !slices.ContainsFunc(rules, func(rule v1alpha1.ResourceRule) bool { return !holds(rule) })
}
