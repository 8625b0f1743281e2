// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// collectorFinalizers are the finalizers of the garbage collector. While a parent that is being deleted has one, it decides about the children.
var collectorFinalizers = []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}

// phase is the name of a hook.
type phase string

const (
	phaseNone      phase = ""
	phaseSync      phase = "sync"
	phaseFinalize  phase = "finalize"
	phaseCustomize phase = "customize"
)

// selects reports whether a rule of the type selects an object.
func (t *parentType) selects(o object) bool {
	var annotations labels.Set // read once, and only if a rule needs them
	for _, rule := range t.rules {
		if !rule.labels.Matches(o.Labels()) {
			continue
		}
		if rule.annotations == nil {
			return true
		}
		if annotations == nil {
			metadata, err := metadataOf(o)
			if err != nil {
				return false
			}
			if annotations = metadata.Annotations; annotations == nil {
				annotations = labels.Set{}
			}
		}
		if rule.annotations.Matches(annotations) {
			return true
		}
	}
	return false
}

// watched is the label selector of the objects that the rules may select, nil for all.
func (t *parentType) watched() labels.Selector {
	if len(t.rules) > 1 {
		return nil
	}
	return t.rules[0].labels
}

// isParent reports whether an object is a parent of the Declaration: a rule selects it, or it has our finalizer.
func (spec *Spec) isParent(of *parentType, o object) bool {
	return of.selects(o) || hasFinalizer(o, spec.finalizer)
}

// needsSync reports whether a change of a parent is a reason to sync it.
func (spec *Spec) needsSync(of *parentType, before, after object) bool {
	switch {
	case !spec.isParent(of, before) && !spec.isParent(of, after):
		return false
	case before.GetUID() != after.GetUID():
		return true // another object of the same name
	case !of.ignoreStatusChanges || after.Deleting() || before.GetGeneration() != after.GetGeneration():
		return true
	}
	return differsInMoreThanStatus(before, after) // kinds without a generation may have changed, too
}

func metadataOf(o object) (metav1.ObjectMeta, error) {
	var partial metav1.PartialObjectMetadata
	err := o.Decode(&partial)
	return partial.ObjectMeta, err
}

// hookPlan is what a sync does first: a change of our finalizer, then the call of a hook.
type hookPlan struct {
	// addFinalizer and removeFinalizer are never both true.
	addFinalizer, removeFinalizer bool
	// hook to be called; phaseNone ends the sync.
	hook phase
}

// planHook decides what the sync of a parent does first.
func (spec *Spec) planHook(of *parentType, parent object) hookPlan {
	matches, has := of.selects(parent), hasFinalizer(parent, spec.finalizer)
	if !matches && !has {
		return hookPlan{}
	}
	o := hookPlan{
		addFinalizer:    spec.finalize && matches && !has && !parent.Deleting(),
		removeFinalizer: !spec.finalize && has,
	}
	switch {
	case spec.finalize && (parent.Deleting() || !matches):
		o.hook = phaseFinalize
	case spec.sync && matches:
		o.hook = phaseSync
	}
	return o
}

// managesChildren reports whether the children of a parent are reconciled. Those of a parent that is being deleted are left to the garbage
// collector, except while a finalize hook deletes them.
func (spec *Spec) managesChildren(parent object) bool {
	if !parent.Deleting() {
		return true
	}
	for _, finalizer := range collectorFinalizers {
		if hasFinalizer(parent, finalizer) {
			return false
		}
	}
	return spec.finalize && hasFinalizer(parent, spec.finalizer)
}
