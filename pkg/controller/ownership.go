// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package controller

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Ownership is the relation of a child object to its owner, the object that a controller reconciles.
type Ownership int

const (
	// None: the child does not exist.
	None Ownership = iota
	// Owned: the owner controls the child, and the child is not being deleted.
	Owned
	// Orphaned: the child was made for an owner of this name and has no controller. As a rule that owner was deleted with
	// --cascade=orphan. A live owner that is not being deleted may adopt the child.
	Orphaned
	// Terminating: the child will go without our doing. It is being deleted, or an earlier owner of the same name controls it, and then
	// the garbage collector deletes it.
	Terminating
	// Foreign: another object controls the child, or no controller does and the child was not made for an owner of this name. It is
	// never changed.
	Foreign
)

// String implements fmt.Stringer.
func (o Ownership) String() string {
	if names := [...]string{"None", "Owned", "Orphaned", "Terminating", "Foreign"}; o >= 0 && int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Ownership(%d)", int(o))
}

// OwnershipOf returns the ownership of a child, which is nil where it does not exist. The owner is of the kind. isOrphan is called only with
// a child that has no controller, and reports whether it was made for an owner of this name: the name of the child alone proves nothing.
func OwnershipOf[T interface {
	comparable
	metav1.Object
}](owner metav1.Object, kind schema.GroupVersionKind, child T, isOrphan func(T) bool) Ownership {
	var none T
	if child == none {
		return None
	}
	controller := metav1.GetControllerOfNoCopy(child)
	switch isOwned := controller != nil && controller.UID == owner.GetUID(); {
	case isOwned && child.GetDeletionTimestamp() == nil:
		return Owned
	case isOwned, controller != nil && isEarlierOwner(controller, owner, kind):
		return Terminating
	case controller != nil || !isOrphan(child):
		return Foreign
	case child.GetDeletionTimestamp() != nil:
		return Terminating
	default:
		return Orphaned
	}
}

// isEarlierOwner reports whether the reference is to an earlier object of the owner's kind and name.
func isEarlierOwner(reference *metav1.OwnerReference, owner metav1.Object, kind schema.GroupVersionKind) bool {
	return reference.Kind == kind.Kind && reference.APIVersion == kind.GroupVersion().String() &&
		reference.Name == owner.GetName() && reference.UID != owner.GetUID()
}
