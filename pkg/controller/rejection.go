// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package controller

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rejection is the API server's reason and message for rejecting an object that we create. It belongs in the status of the owner of that
// object.
type Rejection struct{ Reason, Message string }

// RejectionOf returns nil for transient errors: the API server is not reached, or overloaded, or its quota or the object was just being
// changed, or it does not know the kind of the owner yet.
func RejectionOf(err error) *Rejection {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || isOutage(err) || apierrors.IsConflict(err) || IsOwnerUnknown(err) {
		return nil
	}
	status := answer.Status()
	if status.Reason == metav1.StatusReasonInvalid && !namesField(status) {
		status.Reason = metav1.StatusReasonForbidden // of a ValidatingAdmissionPolicy, which may change
	}
	return &Rejection{Reason: string(status.Reason), Message: status.Message}
}

// IsInvalid reports whether a field of the object is invalid.
func (r *Rejection) IsInvalid() bool { return r.Reason == string(metav1.StatusReasonInvalid) }

// namesField reports whether the rejection is about a field of the object.
func namesField(status metav1.Status) bool {
	return status.Details != nil && slices.ContainsFunc(status.Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field != "" })
}

// unknownOwner is the beginning of the message of the admission plugin OwnerReferencesPermissionEnforcement for an unknown kind.
const unknownOwner = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for "

// IsOwnerUnknown reports whether an object was rejected for the kind of its owner, although the API server serves it: that plugin reads the
// kinds only every 30 seconds, so it does not know a kind whose CustomResourceDefinition was just installed.
// Only the text distinguishes it from a missing permission.
func IsOwnerUnknown(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && apierrors.IsForbidden(err) && strings.Contains(answer.Status().Message, unknownOwner)
}
