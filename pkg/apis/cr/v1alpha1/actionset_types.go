// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:resource:path=actionsets,singular=actionset,categories=millwright,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress.percentCompleted`
// +kubebuilder:printcolumn:name="SizeDownloadedB",type=integer,priority=1,JSONPath=`.status.progress.sizeDownloadedB`
// +kubebuilder:printcolumn:name="SizeUploadedB",type=integer,priority=1,JSONPath=`.status.progress.sizeUploadedB`
// +kubebuilder:printcolumn:name="EstimatedDownloadSizeB",type=integer,priority=1,JSONPath=`.status.progress.estimatedDownloadSizeB`
// +kubebuilder:printcolumn:name="EstimatedUploadSizeB",type=integer,priority=1,JSONPath=`.status.progress.estimatedUploadSizeB`
// +kubebuilder:printcolumn:name="Running Phase",type=string,JSONPath=`.status.progress.runningPhase`
// +kubebuilder:printcolumn:name="Last Transition Time",type=string,format=date-time,JSONPath=`.status.progress.lastTransitionTime`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// ActionSet runs actions of Blueprints, once. Its actions run at the same time, and the phases of an action one after the other. A run is
// cancelled by setting spec.cancel, or by deleting the ActionSet.
type ActionSet struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to run. It is read once, when the run starts; only cancel is read at any time.
	// +optional
	Spec *ActionSetSpec `json:"spec,omitempty"`
	// status is the state of the run. Only the controller writes it.
	// +optional
	Status *ActionSetStatus `json:"status,omitempty"`
}

// ActionSetSpec is what to run.
type ActionSetSpec struct {
	// actions run at the same time.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	Actions []ActionSpec `json:"actions,omitempty"`

	// cancel stops what runs. After that only the deferPhases are started, and each of them has a few minutes. The ActionSet ends as failed,
	// with the condition Cancelled. This cannot be undone.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
}

// ActionSpec is one action to run.
type ActionSpec struct {
	// name of the action in the Blueprint.
	// +optional
	Name string `json:"name"`

	// object is the subject of the action.
	// +optional
	Object ObjectReference `json:"object"`

	// blueprint is the name of a Blueprint in the namespace of the ActionSet.
	// +optional
	Blueprint string `json:"blueprint,omitempty"`

	// artifacts are the output artifacts of another action, for templates in .ArtifactsIn.
	// +optional
	Artifacts map[string]Artifact `json:"artifacts,omitempty"`

	// configMaps are for templates in .ConfigMaps, by name. Only name and namespace of each are used.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	ConfigMaps map[string]ObjectReference `json:"configMaps"`

	// secrets are for templates in .Secrets, by name. Only name and namespace of each are used.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Secrets map[string]ObjectReference `json:"secrets"`

	// profile is for templates in .Profile. Only name and namespace are used.
	// +optional
	Profile *ObjectReference `json:"profile"`

	// podOverride is merged into the spec of each Pod that the action makes, as kubectl patch does. It wins over the podOverride of a phase.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	PodOverride *runtime.RawExtension `json:"podOverride,omitempty"`

	// options are for templates in .Options.
	// +optional
	Options map[string]string `json:"options"`

	// preferredVersion of the functions, a semantic version. Each function has one version only.
	// +optional
	PreferredVersion string `json:"preferredVersion"`

	// podLabels are put on each Pod that the action makes. Those of a phase win.
	// +optional
	PodLabels map[string]string `json:"podLabels"`

	// podAnnotations are put on each Pod that the action makes. Those of a phase win.
	// +optional
	PodAnnotations map[string]string `json:"podAnnotations"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ActionSetList is a list of ActionSets.
type ActionSetList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ActionSets.
	Items []ActionSet `json:"items"`
}
