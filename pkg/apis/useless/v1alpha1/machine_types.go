// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:resource:path=machines,singular=machine,shortName=mach,categories=millwright;useless,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.switches,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Switches",type=integer,JSONPath=`.spec.switches`
// +kubebuilder:printcolumn:name="Positions",type=string,JSONPath=`.status.positions`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Position",type=string,priority=1,JSONPath=`.spec.switchPosition`
// +kubebuilder:printcolumn:name="Seen",type=date,priority=1,JSONPath=`.status.seenAt`
// +kubebuilder:printcolumn:name="Ready",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be at most 63 characters: it becomes the value of a label"

// Machine has switches and keeps them down. When a switch is flipped, the controller moves it back: a few seconds after it
// was seen, and never more than one switch per Machine every few seconds.
type Machine struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants of the machine.
	// +optional
	// +kubebuilder:default={}
	Spec MachineSpec `json:"spec,omitempty"`
	// status is what the controller last observed. It is written by the controller alone.
	// +optional
	Status MachineStatus `json:"status,omitempty"`
}

// MachineSpec is what the user wants of the machine.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) == has(oldSelf.selector) && (!has(self.selector) || self.selector == oldSelf.selector)",message="selector is immutable, whether it was set or not: create another Machine instead",fieldPath=".selector"
type MachineSpec struct {
	// switches is the number of Switch objects that the machine has.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Switches int32 `json:"switches,omitempty"`

	// switchPosition is the position of the lever, which is part of the machine itself, for instance up or down. A lever in another
	// position than down is moved down after flipDelaySeconds. A machine without this field has no lever.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	SwitchPosition string `json:"switchPosition,omitempty"`

	// selector selects the switches of the machine: switches that match it and have no other controller owner are adopted, switches
	// that no longer match it are released. The switches that the machine creates have the labels of matchLabels, which must satisfy
	// matchExpressions. The default is matchLabels machine=<name of the machine>. It cannot be changed. It has at most 50 labels, 20
	// expressions, and 50 values in each.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="an empty selector would match every switch of the namespace: give matchLabels, or leave selector out for machine=<name>"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.size() <= 50",message="at most 50 labels: every switch of the machine has all of them",fieldPath=".matchLabels"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.size() <= 20",message="at most 20 expressions",fieldPath=".matchExpressions"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !has(e.values) || e.values.size() <= 50)",message="at most 50 values in one expression",fieldPath=".matchExpressions"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// flipDelaySeconds is how long after it was seen in another position a switch is moved down again, in seconds.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	FlipDelaySeconds int32 `json:"flipDelaySeconds,omitempty"`

	// flipIntervalSeconds is the least time between two flips of switches of this machine, in seconds.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	FlipIntervalSeconds int32 `json:"flipIntervalSeconds,omitempty"`
}

// MachineStatus is what the controller last observed.
type MachineStatus struct {
	// replicas is the number of switches that the machine owns.
	// +optional
	Replicas int32 `json:"replicas"`

	// positions has the first letter of the position of each owned switch, the switches sorted by name; ? where a
	// position is empty.
	// +optional
	Positions string `json:"positions,omitempty"`

	// seenAt is when the lever (spec.switchPosition) was first seen in another position than down; unset while it is down.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9-]+T[0-9:]+\.[0-9]{6}(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	SeenAt *metav1.MicroTime `json:"seenAt,omitempty"`

	// flip is the flip that is reserved and was not yet observed to have happened. There is never more than one, and it is
	// completed before another one begins, also after a change of the leader.
	// +optional
	Flip *Flip `json:"flip,omitempty"`

	// lastFlipTime is when the last flip was observed to have happened. The next flip comes flipIntervalSeconds later at the earliest.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9-]+T[0-9:]+\.[0-9]{6}(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	LastFlipTime *metav1.MicroTime `json:"lastFlipTime,omitempty"`

	// selector is the selector in force, as text, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// observedGeneration is the metadata.generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready is True while the machine owns as many switches as it should.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// Flip is the reservation of one flip.
type Flip struct {
	// switch is the name of the Switch that is moved down.
	// +required
	Switch string `json:"switch"`

	// uid of that Switch.
	// +required
	UID types.UID `json:"uid"`

	// resourceVersion of the Switch from which the flip was decided. The write of the flip has it as a precondition.
	// +required
	ResourceVersion string `json:"resourceVersion"`
}

// Condition types of a Machine.
const (
	// ConditionReady is True while the machine owns as many switches as it should.
	ConditionReady = "Ready"
)

// Reasons of the Ready condition.
const (
	// ReasonComplete: the machine owns as many switches as it should.
	ReasonComplete = "Complete"
	// ReasonScaling: switches are being created or deleted.
	ReasonScaling = "Scaling"
	// ReasonInvalidSelector: the selector cannot be used, or the labels of a new switch would not satisfy it.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonSelectorOverlap: switches that the selector matches belong to another Machine.
	ReasonSelectorOverlap = "SelectorOverlap"
	// ReasonCreateFailed: the API server refused to create a switch; the message is that of the API server.
	ReasonCreateFailed = "CreateFailed"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// MachineList is a list of Machines.
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Machines.
	Items []Machine `json:"items"`
}
