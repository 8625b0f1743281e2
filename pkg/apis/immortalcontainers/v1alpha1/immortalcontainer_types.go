// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:resource:path=immortalcontainers,singular=immortalcontainer,shortName=ic,categories=millwright,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.currentPod`
// +kubebuilder:printcolumn:name="Starts",type=integer,JSONPath=`.status.startTimes`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Phase",type=string,priority=1,JSONPath=`.status.podPhase`
// +kubebuilder:printcolumn:name="Last Reason",type=string,priority=1,JSONPath=`.status.lastTermination.reason`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 241",message="metadata.name must be at most 241 characters: the Pod is named <name>-immortalpod, and a Pod's name has at most 253"

// ImmortalContainer is a container that must always run, exactly once. Its controller creates one Pod for it, named
// <name>-immortalpod, and creates that Pod again whenever it terminates or is deleted.
type ImmortalContainer struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +required
	Spec ImmortalContainerSpec `json:"spec"`
	// status is what the controller last observed. It is written by the controller alone.
	// +optional
	Status ImmortalContainerStatus `json:"status,omitempty"`
}

// ImmortalContainerSpec is what the user wants to run.
type ImmortalContainerSpec struct {
	// image of the container, which is named "acontainer" in the Pod. A change replaces the Pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`

	// template has everything else that a Pod can have: labels, environment, probes, volumes, sidecars, affinity, priority.
	// A container named "acontainer" in it is the one that runs the image and may leave its own image out; spec.image wins.
	// restartPolicy defaults to OnFailure; Never is refused. A change replaces the Pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy != 'Never'",message="restartPolicy must be OnFailure or Always: a container that is never restarted is not immortal"
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// suspend stops the container: while it is true there is no Pod. The Pod that runs is deleted with its normal grace period.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// backoff sets how long to wait before the next start after the Pod has terminated by itself. A Pod that was deleted
	// is created again immediately.
	// +optional
	// +kubebuilder:default={}
	Backoff Backoff `json:"backoff,omitempty"`
}

// Backoff spaces out the starts of a container that keeps terminating: the wait doubles with every termination.
type Backoff struct {
	// initialSeconds is the wait after the first termination, in seconds.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	InitialSeconds int32 `json:"initialSeconds,omitempty"`

	// maxSeconds is the longest wait, in seconds. It bounds initialSeconds too.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaxSeconds int32 `json:"maxSeconds,omitempty"`

	// resetAfterSeconds resets the backoff: after a Pod that has run for this long, in seconds, the wait is initialSeconds again.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	ResetAfterSeconds int32 `json:"resetAfterSeconds,omitempty"`
}

// ImmortalContainerStatus is what the controller last observed.
type ImmortalContainerStatus struct {
	// currentPod is the name of the Pod that runs the container or is about to; empty if there is none.
	// +optional
	CurrentPod string `json:"currentPod,omitempty"`

	// startTimes is the number of Pods started for this object. A start is counted before its Pod is created, so no start
	// is missing from the count.
	// +optional
	StartTimes int64 `json:"startTimes,omitempty"`

	// observedStart is the number of the newest start whose Pod was observed. While it is below startTimes, one start is
	// reserved and its Pod is not created yet.
	// +optional
	ObservedStart int64 `json:"observedStart,omitempty"`

	// podPhase is the phase of the current Pod.
	// +optional
	PodPhase corev1.PodPhase `json:"podPhase,omitempty"`

	// lastTermination is how the last Pod that terminated by itself ended.
	// +optional
	LastTermination *Termination `json:"lastTermination,omitempty"`

	// consecutiveTerminations counts the terminations since a Pod last ran for backoff.resetAfterSeconds, or since the
	// spec was last edited. Each of them doubles the wait before the next start.
	// +optional
	ConsecutiveTerminations int32 `json:"consecutiveTerminations,omitempty"`

	// nextStartTime is when the next Pod will be created, while the controller is backing off.
	// +optional
	NextStartTime *metav1.Time `json:"nextStartTime,omitempty"`

	// observedGeneration is the metadata.generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready is the Pod's own Ready condition; Progressing shows what the controller is doing;
	// Conflict is True while a Pod that is not ours has the name that ours needs.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// Termination is how a Pod ended.
type Termination struct {
	// reason is the container's own reason (Completed, Error, OOMKilled), or the Pod's if no container has one
	// (Evicted, NodeLost, DeadlineExceeded).
	// +optional
	Reason string `json:"reason,omitempty"`

	// exitCode of the container, where it is known.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// message is the container's termination message, or the Pod's; cut at 1024 bytes.
	// +optional
	Message string `json:"message,omitempty"`

	// finishedAt is when it ended.
	// +optional
	FinishedAt metav1.Time `json:"finishedAt,omitempty"`

	// pod is the name of the Pod that ended.
	// +optional
	Pod string `json:"pod,omitempty"`
}

// Condition types of an ImmortalContainer.
const (
	// ConditionReady mirrors the Ready condition of the Pod.
	ConditionReady = "Ready"
	// ConditionProgressing is True while the controller is on its way to a running Pod, False when it has nothing to do.
	ConditionProgressing = "Progressing"
	// ConditionConflict is True while a Pod that is not ours has the name that ours needs.
	ConditionConflict = "Conflict"
)

// Reasons of the Progressing condition.
const (
	// ReasonCreating: a start is reserved and its Pod is being created or is not yet Ready.
	ReasonCreating = "Creating"
	// ReasonReplacing: the spec has changed and the Pod of the old spec is being deleted.
	ReasonReplacing = "Replacing"
	// ReasonBackingOff: the Pod has terminated; the next one is created at status.nextStartTime.
	ReasonBackingOff = "BackingOff"
	// ReasonWaitingForTermination: the Pod of this name is terminating; the next one is created when it is gone.
	ReasonWaitingForTermination = "WaitingForTermination"
	// ReasonSuspended: spec.suspend is true.
	ReasonSuspended = "Suspended"
	// ReasonRunning: the Pod has been Ready; there is nothing to do.
	ReasonRunning = "Running"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ImmortalContainerList is a list of ImmortalContainers.
type ImmortalContainerList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ImmortalContainers.
	Items []ImmortalContainer `json:"items"`
}
