// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AnnotationRevisionChildren is the annotation of a ControllerRevision for its column Children: how many of how many children have the revision.
const AnnotationRevisionChildren = "millwright.dev/children"

// Labels of a ControllerRevision: the type of its parent.
const (
	LabelRevisionAPIGroup = "metacontroller.k8s.io/apiGroup"
	LabelRevisionResource = "metacontroller.k8s.io/resource"
)

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:resource:path=controllerrevisions,singular=controllerrevision,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, request not yet submitted"
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.metadata.ownerReferences[0].name`
// +kubebuilder:printcolumn:name="Children",type=string,JSONPath=`.metadata.annotations.millwright\.dev/children`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// ControllerRevision records a revision of a parent whose children are updated one after the other, and which children have it. It is written by the
// engine alone. A revision that no child has is deleted, unless it is the latest.
type ControllerRevision struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// parentPatch has the fields of the parent that make the revision, which revisionHistory of the CompositeController selects. A field that the parent
	// lacks is null.
	// ---
	// It is written as a whole.
	// +structType=atomic
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	ParentPatch runtime.RawExtension `json:"parentPatch"`

	// children have the revision.
	// +optional
	// +listType=atomic
	Children []ControllerRevisionChildren `json:"children,omitempty"`
}

// ControllerRevisionChildren are the children of one type that have a revision.
type ControllerRevisionChildren struct {
	// apiGroup of the type of the children, empty for the core group.
	// +required
	APIGroup string `json:"apiGroup"`
	// kind of the children.
	// +required
	Kind string `json:"kind"`
	// names of the children, which are in the namespace of the ControllerRevision.
	// +required
	// +listType=atomic
	Names []string `json:"names"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ControllerRevisionList is a list of ControllerRevisions.
type ControllerRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items of the list.
	Items []ControllerRevision `json:"items"`
}
