// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:resource:path=helloapps,singular=helloapp,shortName=ha,categories=all;millwright,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Available",type=integer,priority=1,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="metadata.name must be at most 63 lower case letters, digits and '-', and begin and end with a letter or digit: it becomes the name of a container"

// HelloApp is an app from two fields: an image and how many. Its controller runs it as a Deployment of the same name.
type HelloApp struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +required
	Spec HelloAppSpec `json:"spec"`
	// status is what the controller last observed. It is written by the controller alone.
	// +optional
	Status HelloAppStatus `json:"status,omitempty"`
}

// HelloAppSpec is what the user wants to run.
type HelloAppSpec struct {
	// size is how many Pods run. 0 stops the app and keeps it.
	// +required
	// +kubebuilder:validation:Minimum=0
	Size int32 `json:"size"`

	// image of the container, which is named after the HelloApp. A change is rolled out. Without an image there is no
	// Deployment.
	// +optional
	Image string `json:"image,omitempty"`

	// name is ignored. Old manifests have it; the name of the app is metadata.name.
	// +optional
	Name string `json:"name,omitempty"`

	// age is ignored. Old manifests have it.
	// +optional
	Age *intstr.IntOrString `json:"age,omitempty"`

	// port that the container listens on. If it is set, a Service with the name of the app has that port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// env is the environment of the container. A change is rolled out.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +patchStrategy=merge
	// +patchMergeKey=name
	Env []corev1.EnvVar `json:"env,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

	// resources that the container requests, and is limited to. A change is rolled out.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`

	// imagePullPolicy of the container. The default is the cluster's: Always for the tag latest, else IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are the Secrets, in the app's namespace, that hold the credentials to pull the image.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +patchStrategy=merge
	// +patchMergeKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

	// serviceAccountName of the Pods. The default is the namespace's ServiceAccount "default".
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// HelloAppStatus is what the controller last observed.
type HelloAppStatus struct {
	// replicas is how many Pods there are, of any version.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is how many of them are Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is how many of them have been Ready for long enough to count as available.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// updatedReplicas is how many of them are of the newest version.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// selector of the Pods, as text, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// deploymentName is the name of the Deployment that runs the app; empty while there is none.
	// +optional
	DeploymentName string `json:"deploymentName,omitempty"`

	// observedGeneration is the metadata.generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready is True while all Pods of the newest version are available; Available and Progressing are the
	// Deployment's own; Conflict is True while a Deployment or Service that is not ours has the name that ours needs.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// Condition types of a HelloApp.
const (
	// ConditionReady is True while all Pods of the newest version are available.
	ConditionReady = "Ready"
	// ConditionAvailable mirrors the condition of the Deployment.
	ConditionAvailable = "Available"
	// ConditionProgressing mirrors the condition of the Deployment.
	ConditionProgressing = "Progressing"
	// ConditionConflict is True while an object that is not ours has the name that ours needs.
	ConditionConflict = "Conflict"
)

// Reasons of the Ready condition. The reasons of the Deployment's conditions are used too.
const (
	// ReasonAvailable: all Pods of the newest version are available.
	ReasonAvailable = "Available"
	// ReasonProgressing: Pods are being created, replaced or removed.
	ReasonProgressing = "Progressing"
	// ReasonImageNotSet: spec.image is empty, so there is nothing to run.
	ReasonImageNotSet = "ImageNotSet"
	// ReasonConflict: an object that is not ours has the name that ours needs.
	ReasonConflict = "Conflict"
	// ReasonContested: another client changes or deletes the Deployment each time that it is restored.
	ReasonContested = "Contested"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HelloAppList is a list of HelloApps.
type HelloAppList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the HelloApps.
	Items []HelloApp `json:"items"`
}
