// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:resource:path=decoratorcontrollers,singular=decoratorcontroller,shortName=dec;decorators,categories=millwright,scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, request not yet submitted"
// +kubebuilder:printcolumn:name="Resources",type=string,JSONPath=`.status.resources`
// +kubebuilder:printcolumn:name="Attachments",type=string,JSONPath=`.status.attachments`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`

// DecoratorController adds behaviour to objects of any kind: for every target object it asks a hook which labels, annotations, status and
// attachments the target should have, and writes what differs. Attachments are objects that the target owns.
type DecoratorController struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the controller does.
	// +required
	Spec DecoratorControllerSpec `json:"spec"`
	// status is what the engine last observed. It is written by the engine alone.
	// +optional
	Status DecoratorControllerStatus `json:"status,omitempty"`
}

// DecoratorControllerSpec is what the controller does.
type DecoratorControllerSpec struct {
	// resources are the types of the targets, and which objects of those types are targets. An object is a target if one of the rules for its
	// type selects it.
	// +required
	// +listType=atomic
	Resources []DecoratorControllerResourceRule `json:"resources"`

	// attachments are the allowed types of attachments. Attachments of other types in the hook's answer are refused.
	// +optional
	// +listType=atomic
	Attachments []DecoratorControllerAttachmentRule `json:"attachments,omitempty"`

	// hooks are the webhooks of the author of the controller. sync or finalize must be set.
	// +optional
	Hooks *DecoratorControllerHooks `json:"hooks,omitempty"`

	// resyncPeriodSeconds is how often each target is synced even if nothing has changed, in seconds, at least 1. Default:
	// only when something changes.
	// +optional
	ResyncPeriodSeconds *int32 `json:"resyncPeriodSeconds,omitempty"`

	// applyStrategy is how attachments are written: dynamic-apply merges here, and records what was applied in an annotation; server-side-apply lets the
	// API server merge, by the owners of fields. Default: the strategy of the process, which is dynamic-apply unless the flag apply-strategy sets another.
	// +optional
	ApplyStrategy ApplyStrategy `json:"applyStrategy,omitempty"`

	// endpointConfigs are the access to hooks by host, for hooks that have none of their own.
	// +optional
	// +listType=atomic
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`
}

// DecoratorControllerResourceRule is a type of targets, and which objects of that type are targets.
type DecoratorControllerResourceRule struct {
	ResourceRule `json:",inline"`

	// labelSelector selects the objects that are targets. With annotationSelector, both must match. Default: all.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// annotationSelector selects the objects that are targets by their annotations. Default: all.
	// +optional
	AnnotationSelector *AnnotationSelector `json:"annotationSelector,omitempty"`

	// ignoreStatusChanges: a target is not synced when only its status has changed. Default: false. If several rules are for one type, all
	// of them must have it.
	// +optional
	IgnoreStatusChanges *bool `json:"ignoreStatusChanges,omitempty"`
}

// AnnotationSelector selects objects by their annotations, as a label selector does by labels. All requirements must hold.
type AnnotationSelector struct {
	// matchAnnotations are annotations that must have these values.
	// +optional
	MatchAnnotations map[string]string `json:"matchAnnotations,omitempty"`

	// matchExpressions are further requirements. Their values must be valid values of labels.
	// +optional
	// +listType=atomic
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// DecoratorControllerAttachmentRule is an allowed type of attachments.
type DecoratorControllerAttachmentRule struct {
	ResourceRule `json:",inline"`

	// updateStrategy is what the engine does with an attachment that differs from what the hook desires.
	// +optional
	UpdateStrategy *DecoratorControllerAttachmentUpdateStrategy `json:"updateStrategy,omitempty"`
}

// DecoratorControllerAttachmentUpdateStrategy is what the engine does with an attachment that differs from what the hook desires.
type DecoratorControllerAttachmentUpdateStrategy struct {
	// method is OnDelete (leave it until it is deleted), Recreate (delete it, then create it again) or InPlace (update it). The Rolling
	// methods are refused: attachments are not rolled. Default: OnDelete.
	// +optional
	Method ChildUpdateMethod `json:"method,omitempty"`
}

// DecoratorControllerHooks are the webhooks of the author of the controller.
type DecoratorControllerHooks struct {
	// customize returns which objects the hook needs in addition to target and attachments.
	// +optional
	Customize *Hook `json:"customize,omitempty"`

	// sync returns the labels, annotations and attachments that a target should have, and its status.
	// +optional
	Sync *Hook `json:"sync,omitempty"`

	// finalize is called instead of sync for a target that is deleted, or no longer selected, until it answers that it has finished. Targets
	// get a finalizer.
	// +optional
	Finalize *Hook `json:"finalize,omitempty"`
}

// DecoratorControllerStatus is what the engine last observed.
type DecoratorControllerStatus struct {
	// observedGeneration is the metadata.generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// resources are the resources of spec.resources, as kubectl prints them.
	// +optional
	Resources string `json:"resources,omitempty"`

	// attachments are the resources of spec.attachments, as kubectl prints them.
	// +optional
	Attachments string `json:"attachments,omitempty"`

	// finalizedResources are the types of targets that may have the engine's finalizer. A type is recorded before the first target gets it.
	// When it is no longer in spec.resources, the engine removes its finalizer from the objects of the type.
	// +optional
	// +listType=atomic
	FinalizedResources []ResourceRule `json:"finalizedResources,omitempty"`

	// conditions: Ready is True while the controller serves its targets; otherwise its message shows what the author can do.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DecoratorControllerList is a list of DecoratorControllers.
type DecoratorControllerList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the DecoratorControllers.
	Items []DecoratorController `json:"items"`
}
