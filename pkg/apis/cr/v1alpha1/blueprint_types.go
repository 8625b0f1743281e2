// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:resource:path=blueprints,singular=blueprint,categories=millwright,scope=Namespaced

// Blueprint declares the operations of an application, such as backup and restore. An ActionSet runs them.
type Blueprint struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// actions are the operations, by the name that an ActionSet calls them by.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	Actions map[string]BlueprintAction `json:"actions,omitempty"`
}

// BlueprintAction is one operation: phases, one after the other.
type BlueprintAction struct {
	// name of the action, for readers. The controller uses the key in actions instead.
	// +optional
	Name string `json:"name,omitempty"`

	// kind of the objects that the action is made for. It is not enforced.
	// +optional
	Kind string `json:"kind,omitempty"`

	// configMapNames are the names by which the templates find ConfigMaps in .ConfigMaps. An ActionSet that lacks one of them gets a
	// Warning event.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	ConfigMapNames []string `json:"configMapNames,omitempty"`

	// secretNames are the names by which the templates find Secrets in .Secrets. An ActionSet that lacks one of them gets a Warning event.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	SecretNames []string `json:"secretNames,omitempty"`

	// inputArtifactNames are the names by which the templates find artifacts in .ArtifactsIn. An ActionSet that lacks one of them gets a
	// Warning event.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	InputArtifactNames []string `json:"inputArtifactNames,omitempty"`

	// outputArtifacts are what the action passes on to other actions. Their values are templates, rendered when all phases have succeeded.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	OutputArtifacts map[string]Artifact `json:"outputArtifacts,omitempty"`

	// phases run one after the other, until one of them fails.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Phases []BlueprintPhase `json:"phases,omitempty"`

	// deferPhase runs after the phases, whether they have succeeded, failed or were cancelled.
	// +optional
	DeferPhase *BlueprintPhase `json:"deferPhase,omitempty"`
}

// BlueprintPhase is one call of a function.
type BlueprintPhase struct {
	// func is the name of the function, such as KubeTask. Case matters.
	// +optional
	Func string `json:"func,omitempty"`

	// name of the phase, unique in the action. Later phases find its output in .Phases under this name.
	// +optional
	Name string `json:"name,omitempty"`

	// objects are Secrets and ConfigMaps that the templates of the phase find in .Phases.<name>.Secrets and .ConfigMaps. Their
	// fields are templates, rendered when the action starts.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Objects map[string]ObjectReference `json:"objects,omitempty"`

	// args are the arguments of the function. Texts in them are templates, rendered just before the phase runs.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Args *runtime.RawExtension `json:"args,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BlueprintList is a list of Blueprints.
type BlueprintList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Blueprints.
	Items []Blueprint `json:"items"`
}
