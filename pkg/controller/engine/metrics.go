// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/engine/parent"
	"millwright.dev/pkg/hook"
)

// readyReasons are the reasons that are states of their own in millwright_objects: those of the controller, and those of its hooks.
var readyReasons = []string{
	v1alpha1.ReasonParentsFailing, v1alpha1.ReasonStarting, v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonNotYetSupported, v1alpha1.ReasonParentNotServed,
	v1alpha1.ReasonStatusSubresourceMissing, v1alpha1.ReasonChildNotServed, v1alpha1.ReasonTargetNotServed, v1alpha1.ReasonAttachmentNotServed,
	v1alpha1.ReasonGroupUnavailable, v1alpha1.ReasonStatusNotStored,
	v1alpha1.ReasonForbidden, v1alpha1.ReasonWatchStalled, v1alpha1.ReasonAdoptionRefused, v1alpha1.ReasonFinalizersRemain, v1alpha1.ReasonTooLarge,
	v1alpha1.ReasonParentsOverlap, v1alpha1.ReasonNeverSettles, v1alpha1.ReasonServedByBuiltIn,
	string(hook.ReasonInvalidConfiguration), string(hook.ReasonCredentials), string(hook.ReasonBusy), string(hook.ReasonNoMemory), string(hook.ReasonSuspended),
	string(hook.ReasonUnreachable), string(hook.ReasonTooManyRequests), string(hook.ReasonStatus), string(hook.ReasonTooLarge),
	string(hook.ReasonInvalidJSON), string(hook.ReasonInvalidResponse), string(hook.ReasonUnknownField), string(hook.ReasonInvalidChild),
	string(hook.ReasonUndeclaredChild), string(hook.ReasonDuplicateChild), string(hook.ReasonForeignNamespace), parent.ReasonUnselected,
	string(hook.ReasonInvalidRelated), string(hook.ReasonRelatedNotServed),
}

// count publishes how many declarations there are in each state, by their conditions, until the context ends.
func (d declarations[T]) count(ctx context.Context, conditions func(*parent.Declaration) []metav1.Condition) {
	controller.CountObjects(ctx, d.source.Informer, string(d.source.Kind),
		func(o T) []metav1.Condition { return conditions(d.source.From(o)) }, readyReasons...)
}
