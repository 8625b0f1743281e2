// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package engine

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
)

// The CustomResourceDefinitions of Metacontroller have a status without fields, and those of another release may lack some: the API server accepts a
// status, and drops the fields that its definition does not have. Only the answer shows that.

// unstored is a status of which the API server has dropped something. It is never changed. A nil *unstored is of no declaration.
type unstored struct {
	uid        types.UID
	generation int64
	// sent is the status that was last sent, or would have been if it could be stored, and stored is the answer, both without the record of parents.
	sent, stored parent.Status
}

// unstoredOf returns what the API server has dropped of a status, if its answer is the declaration; nil if nothing. Of the record of parents the
// answer itself shows it.
func unstoredOf(answer *parent.Declaration, sent parent.Status) *unstored {
	u := &unstored{uid: answer.UID, generation: answer.Generation, sent: withoutRecord(sent), stored: withoutRecord(answer.Status)}
	if equality.Semantic.DeepEqual(u.sent, u.stored) {
		return nil
	}
	return u
}

// over returns a declaration as if the API server had stored all of its status, the record of parents aside.
func (u *unstored) over(d *parent.Declaration) *parent.Declaration {
	if u == nil || u.uid != d.UID || !equality.Semantic.DeepEqual(u.stored, withoutRecord(d.Status)) {
		return d
	}
	complete := *d
	complete.Status = u.sent
	complete.Status.Finalized = d.Status.Finalized
	return &complete
}

// with returns the same with another status that was not sent.
func (u *unstored) with(status parent.Status) *unstored {
	changed := *u
	changed.sent = withoutRecord(status)
	return &changed
}

// noConditions reports whether the API server stores no conditions.
func (u *unstored) noConditions() bool {
	return u != nil && meta.FindStatusCondition(u.sent.Conditions, v1alpha1.ConditionReady) != nil &&
		meta.FindStatusCondition(u.stored.Conditions, v1alpha1.ConditionReady) == nil
}

// isUseless reports whether it is known of this generation of a declaration that a status is not stored.
func (u *unstored) isUseless(d *parent.Declaration) bool {
	return u.noConditions() && u.uid == d.UID && u.generation == d.Generation
}

func withoutRecord(status parent.Status) parent.Status {
	status.Finalized = nil
	return status
}

// unrecorded is a declaration of whose parents the API server has not stored the types.
type unrecorded struct {
	uid        types.UID
	generation int64
}

func newUnrecorded(d *parent.Declaration) *unrecorded { return &unrecorded{d.UID, d.Generation} }

// isOf reports whether it is this generation of a declaration.
func (u *unrecorded) isOf(d *parent.Declaration) bool {
	return u != nil && u.uid == d.UID && u.generation == d.Generation
}

// unrecordedProblem is the problem of a declaration whose parents would get a finalizer that is not recorded.
func unrecordedProblem(d *parent.Declaration, resource schema.GroupResource) *parent.Problem {
	return &parent.Problem{Reason: v1alpha1.ReasonStatusNotStored, Message: fmt.Sprintf(
		"the API server does not store %s, and without this record no finalizer may be put on %s: %s",
		recordField(d.Kind), d.Kind.Parents(), otherDefinition(resource))}
}

// unstoredMessage is about a declaration that is hosted without conditions.
func unstoredMessage(d *parent.Declaration, resource schema.GroupResource) string {
	return fmt.Sprintf("the API server does not store the status of this %s, which is served without conditions: %s", d.Kind, otherDefinition(resource))
}

// otherDefinition is what is wrong with the CustomResourceDefinition of a resource, and what to do.
func otherDefinition(resource schema.GroupResource) string {
	return fmt.Sprintf("the CustomResourceDefinition %s is that of Metacontroller, or of another release of Millwright. Apply that of this release: "+
		"kubectl apply --server-side --force-conflicts -f manifests/00-crds/%s_%s.yaml", resource, resource.Group, resource.Resource)
}

// recordField is the field of the object that has the record of parents.
func recordField(kind parent.Kind) string {
	if kind == parent.Decorator {
		return "status.finalizedResources"
	}
	return "status.finalizedParents"
}
