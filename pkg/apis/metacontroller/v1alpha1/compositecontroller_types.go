// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:resource:path=compositecontrollers,singular=compositecontroller,shortName=cc;cctl,categories=millwright,scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, request not yet submitted"
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parentResource.resource`
// +kubebuilder:printcolumn:name="Children",type=string,JSONPath=`.status.children`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`

// CompositeController is a controller whose logic is a webhook: for every parent object it asks the hook which children
// the parent should have, and creates, updates and deletes children to match.
type CompositeController struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the controller does.
	// +required
	Spec CompositeControllerSpec `json:"spec"`
	// status is what the engine last observed. It is written by the engine alone.
	// +optional
	Status CompositeControllerStatus `json:"status,omitempty"`
}

// CompositeControllerSpec is what the controller does.
type CompositeControllerSpec struct {
	// parentResource is the type of the parents, and which objects of that type are parents.
	// +required
	ParentResource CompositeControllerParentResourceRule `json:"parentResource"`

	// childResources are the allowed types of children. Children of other types in the hook's answer are refused.
	// +optional
	// +listType=atomic
	ChildResources []CompositeControllerChildResourceRule `json:"childResources,omitempty"`

	// hooks are the webhooks of the author of the controller. sync or finalize must be set.
	// +optional
	Hooks *CompositeControllerHooks `json:"hooks,omitempty"`

	// resyncPeriodSeconds is how often each parent is synced even if nothing has changed, in seconds, at least 1. Default:
	// only when something changes.
	// +optional
	ResyncPeriodSeconds *int32 `json:"resyncPeriodSeconds,omitempty"`

	// generateSelector finds children by a label controller-uid, which the engine sets, instead of by the spec.selector of
	// the parent.
	// +optional
	GenerateSelector *bool `json:"generateSelector,omitempty"`

	// adoption is which objects without a controller owner become children: with matchLabels, those that the spec.selector of the parent matches, if
	// it demands a value of a label, by matchLabels or an expression with the operator In; with any, also those that another selector matches, which
	// may be all that there are. Default: matchLabels.
	// +optional
	Adoption AdoptionPolicy `json:"adoption,omitempty"`

	// applyStrategy is how children are written: dynamic-apply merges here, and records what was applied in an annotation; server-side-apply lets the
	// API server merge, by the owners of fields. Default: the strategy of the process, which is dynamic-apply unless the flag apply-strategy sets another.
	// +optional
	ApplyStrategy ApplyStrategy `json:"applyStrategy,omitempty"`

	// endpointConfigs are the access to hooks by host, for hooks that have none of their own.
	// +optional
	// +listType=atomic
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`
}

// AdoptionPolicy is which objects without a controller owner become children of a parent.
// +kubebuilder:validation:Enum=matchLabels;any
type AdoptionPolicy string

// Adoption policies.
const (
	AdoptMatchLabels AdoptionPolicy = "matchLabels"
	AdoptAny         AdoptionPolicy = "any"
)

// ApplyStrategy is how children and attachments are written.
// +kubebuilder:validation:Enum=dynamic-apply;server-side-apply
type ApplyStrategy string

// Apply strategies.
const (
	ApplyDynamic    ApplyStrategy = "dynamic-apply"
	ApplyServerSide ApplyStrategy = "server-side-apply"
)

// CompositeControllerParentResourceRule is the type of the parents, and which objects of that type are parents.
type CompositeControllerParentResourceRule struct {
	ResourceRule `json:",inline"`

	// labelSelector selects the objects that are parents. Default: all.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// revisionHistory selects the fields of a parent whose changes make a new revision. Children are moved to it one by one.
	// +optional
	RevisionHistory *CompositeControllerRevisionHistory `json:"revisionHistory,omitempty"`

	// ignoreStatusChanges: a parent is not synced when only its status has changed. Default: false.
	// +optional
	IgnoreStatusChanges *bool `json:"ignoreStatusChanges,omitempty"`
}

// CompositeControllerRevisionHistory selects the fields of a parent whose changes make a new revision.
type CompositeControllerRevisionHistory struct {
	// fieldPaths are fields of the parent, as names joined by dots. Default: spec.
	// +optional
	// +listType=atomic
	FieldPaths []string `json:"fieldPaths,omitempty"`
}

// CompositeControllerChildResourceRule is an allowed type of children.
type CompositeControllerChildResourceRule struct {
	ResourceRule `json:",inline"`

	// updateStrategy is what the engine does with a child that differs from what the hook desires.
	// +optional
	UpdateStrategy *CompositeControllerChildUpdateStrategy `json:"updateStrategy,omitempty"`
}

// CompositeControllerChildUpdateStrategy is what the engine does with a child that differs from what the hook desires.
type CompositeControllerChildUpdateStrategy struct {
	// method is OnDelete (leave it until it is deleted), Recreate (delete it, then create it again), InPlace (update it),
	// or RollingRecreate and RollingInPlace (the same, one child after the other). Default: OnDelete.
	// +optional
	Method ChildUpdateMethod `json:"method,omitempty"`

	// statusChecks must hold for every child that was moved before the next one is moved. Only for the Rolling methods.
	// +optional
	StatusChecks ChildUpdateStatusChecks `json:"statusChecks,omitempty"`
}

// ChildUpdateStatusChecks must hold for every child that was moved before the next one is moved.
type ChildUpdateStatusChecks struct {
	// conditions that must all be in the child's status.
	// +optional
	// +listType=atomic
	Conditions []StatusConditionCheck `json:"conditions,omitempty"`
}

// StatusConditionCheck is a condition that must be in the status of a child.
type StatusConditionCheck struct {
	// type of the condition.
	// +required
	Type string `json:"type"`

	// status that it must have. Default: any.
	// +optional
	Status *string `json:"status,omitempty"`

	// reason that it must have. Default: any.
	// +optional
	Reason *string `json:"reason,omitempty"`
}

// CompositeControllerHooks are the webhooks of the author of the controller.
type CompositeControllerHooks struct {
	// customize returns which objects the hook needs in addition to parent and children.
	// +optional
	Customize *Hook `json:"customize,omitempty"`

	// sync returns which children a parent should have, and its status.
	// +optional
	Sync *Hook `json:"sync,omitempty"`

	// finalize is called instead of sync for a parent that is deleted, or no longer matches the labelSelector, until it
	// answers that it has finished. Parents get a finalizer.
	// +optional
	Finalize *Hook `json:"finalize,omitempty"`

	// preUpdateChild is accepted because existing manifests may have it. It is never called.
	// +optional
	PreUpdateChild *Hook `json:"preUpdateChild,omitempty"`

	// postUpdateChild is accepted because existing manifests may have it. It is never called.
	// +optional
	PostUpdateChild *Hook `json:"postUpdateChild,omitempty"`
}

// CompositeControllerStatus is what the engine last observed.
type CompositeControllerStatus struct {
	// observedGeneration is the metadata.generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// children are the resources of spec.childResources, as kubectl prints them.
	// +optional
	Children string `json:"children,omitempty"`

	// finalizedParents are the types of parents that may have the engine's finalizer. A type is recorded before the first parent gets it.
	// When spec.parentResource becomes another type, the engine removes its finalizer from the parents of the type before.
	// +optional
	// +listType=atomic
	FinalizedParents []ResourceRule `json:"finalizedParents,omitempty"`

	// conditions: Ready is True while the controller serves its parents; otherwise its message shows what the author can do.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// Condition types of a CompositeController and of a DecoratorController.
const (
	// ConditionReady is True while the controller serves its parents.
	ConditionReady = "Ready"
)

// Reasons of the Ready condition. While a hook fails for one reason or another, that is the reason: HookUnreachable,
// HookFailed, HookSuspended, InvalidHookCredentials and so on.
const (
	// ReasonServing: parents and children are watched, and the hooks answer.
	ReasonServing = "Serving"
	// ReasonParentsFailing is the reason while some parents have a problem of their own, and the others have none: Ready is True.
	ReasonParentsFailing = "ParentsFailing"
	// ReasonStarting: the watches are being filled.
	ReasonStarting = "Starting"
	// ReasonInvalidSpec: the spec has something that can never work.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonNotYetSupported: the spec asks for something that this version of the engine does not do.
	ReasonNotYetSupported = "NotYetSupported"
	// ReasonParentNotServed: the API server does not serve the type of the parents.
	ReasonParentNotServed = "ParentNotServed"
	// ReasonStatusSubresourceMissing: the type of the parents has no status subresource.
	ReasonStatusSubresourceMissing = "StatusSubresourceMissing"
	// ReasonChildNotServed: the API server does not serve a type of the children.
	ReasonChildNotServed = "ChildNotServed"
	// ReasonTargetNotServed: the API server does not serve a type of the targets of a DecoratorController.
	ReasonTargetNotServed = "TargetNotServed"
	// ReasonAttachmentNotServed: the API server does not serve a type of the attachments of a DecoratorController.
	ReasonAttachmentNotServed = "AttachmentNotServed"
	// ReasonGroupUnavailable is the reason while the API server does not answer which resources of a group it serves.
	ReasonGroupUnavailable = "GroupUnavailable"
	// ReasonStatusNotStored is the reason while the CustomResourceDefinition of the controller itself lacks the record of finalizers in the status.
	ReasonStatusNotStored = "StatusNotStored"
	// ReasonForbidden: the engine lacks a right on parents or children.
	ReasonForbidden = "Forbidden"
	// ReasonWatchStalled is the reason while no list or watch of parents, children or related objects succeeds, so that changes are not seen.
	ReasonWatchStalled = "WatchStalled"
	// ReasonTooLarge: a child or a status in an answer of a hook is larger than the API server accepts.
	ReasonTooLarge = "TooLarge"
	// ReasonParentsOverlap: an older CompositeController has some of the same parents and manages their children or their status.
	ReasonParentsOverlap = "ParentsOverlap"
	// ReasonAdoptionRefused is the reason if the selector of a parent demands no value of a label, and matches objects without a controller owner.
	ReasonAdoptionRefused = "AdoptionRefused"
	// ReasonFinalizersRemain is the reason while the finalizer of the controller cannot be removed from parents that it does not have any more.
	ReasonFinalizersRemain = "FinalizersRemain"
	// ReasonNeverSettles: the hook answers differently each time, although nothing has changed.
	ReasonNeverSettles = "NeverSettles"
	// ReasonServedByBuiltIn: the parents are of a kind that a controller of Millwright serves.
	ReasonServedByBuiltIn = "ServedByBuiltIn"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// CompositeControllerList is a list of CompositeControllers.
type CompositeControllerList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the CompositeControllers.
	Items []CompositeController `json:"items"`
}
