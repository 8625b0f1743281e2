// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PositionDown is the position that a Machine keeps its switches in.
const PositionDown = "down"

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:resource:path=switches,singular=switch,shortName=sw,categories=millwright;useless,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.position`
// +kubebuilder:printcolumn:name="Position",type=string,JSONPath=`.spec.position`
// +kubebuilder:printcolumn:name="Seen",type=date,JSONPath=`.status.seenAt`
// +kubebuilder:printcolumn:name="Machine",type=string,priority=1,JSONPath=`.metadata.ownerReferences[?(@.controller==true)].name`
// +kubebuilder:printcolumn:name="Age",type=date,priority=1,JSONPath=`.metadata.creationTimestamp`

// Switch is one switch of a Machine. Flip it, and the Machine that owns it flips it back.
type Switch struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the position of the switch. Users change it, and so does the Machine.
	// +optional
	// +kubebuilder:default={}
	Spec SwitchSpec `json:"spec,omitempty"`
	// status is what the Machine last observed. It is written by its controller alone.
	// +optional
	Status SwitchStatus `json:"status,omitempty"`
}

// SwitchSpec is the position of the switch.
type SwitchSpec struct {
	// position of the switch: down, or anything else, for instance up.
	// +optional
	// +kubebuilder:default=down
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Position string `json:"position,omitempty"`
}

// SwitchStatus is what the Machine that owns the switch last observed.
type SwitchStatus struct {
	// seenAt is when the switch was first seen in another position than down; unset while it is down.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9-]+T[0-9:]+\.[0-9]{6}(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	SeenAt *metav1.MicroTime `json:"seenAt,omitempty"`

	// observedGeneration is the metadata.generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SwitchList is a list of Switches.
type SwitchList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Switches.
	Items []Switch `json:"items"`
}
