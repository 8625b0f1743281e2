// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// finalizers of the garbage collector. While one is on a parent that is deleted, it decides about the children.
var collectorFinalizers = []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}

// phase is the hook that is called.
type phase string

const (
	phaseNone     phase = ""
	phaseSync     phase = "sync"
	phaseFinalize phase = "finalize"
)

// counts tells whether a parent is this controller's business.
func (r *rules) counts(parent object) bool {
	return r.parents.Matches(parent.Labels()) || hasFinalizer(parent, r.finalizer)
}

// matters tells whether a change of a parent is a reason to sync it.
func (r *rules) matters(before, after object) bool {
	switch {
	case !r.counts(before) && !r.counts(after):
		return false
	case before.GetUID() != after.GetUID():
		return true // another one of the same name
	case !r.ignoreStatusChanges || after.Deleting() || before.GetGeneration() != after.GetGeneration():
		return true
	}
	// A change of finalizers or owners alone is ignored like one of the status: so manifests have come to rely on.
	was, err := metadataOf(before)
	if err != nil {
		return true
	}
	is, err := metadataOf(after)
	return err != nil || !maps.Equal(was.Labels, is.Labels) || !maps.Equal(was.Annotations, is.Annotations)
}

func metadataOf(o object) (metav1.ObjectMeta, error) {
	var partial metav1.PartialObjectMetadata
	err := o.Decode(&partial)
	return partial.ObjectMeta, err
}

// opening is how a sync begins, before any hook is called.
type opening struct {
	// addFinalizer and removeFinalizer are done first. Not both are true.
	addFinalizer, removeFinalizer bool
	// hook to be called; phaseNone ends the sync.
	hook phase
}

// open decides how the sync of a parent begins.
func (r *rules) open(parent object) opening {
	matches, has := r.parents.Matches(parent.Labels()), hasFinalizer(parent, r.finalizer)
	if !matches && !has {
		return opening{}
	}
	o := opening{
		addFinalizer:    r.finalize && matches && !has && !parent.Deleting(),
		removeFinalizer: !r.finalize && has,
	}
	switch {
	case r.finalize && (parent.Deleting() || !matches):
		o.hook = phaseFinalize
	case r.sync && matches:
		o.hook = phaseSync
	}
	return o
}

// manages tells whether the children of a parent are brought to what is desired. Those of a parent that is deleted are the
// garbage collector's, but while a finalize hook is about to clear them away.
func (r *rules) manages(parent object) bool {
	if !parent.Deleting() {
		return true
	}
	for _, finalizer := range collectorFinalizers {
		if hasFinalizer(parent, finalizer) {
			return false
		}
	}
	return r.finalize && hasFinalizer(parent, r.finalizer)
}
