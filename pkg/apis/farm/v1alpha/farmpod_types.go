// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FarmPodPrefix followed by the name of a Pod is the name of its FarmPod.
const FarmPodPrefix = "farm-"

// +genclient
// +genclient:onlyVerbs=get,list,watch
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FarmPod is a read-only view of a Pod, and changes with it.
type FarmPod struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. The name is "farm-" followed by the name of the Pod; labels, annotations and times are those of the Pod.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes what the Pod consists of.
	Spec FarmPodSpec `json:"spec"`
	// status is the state of the Pod.
	// +optional
	Status FarmPodStatus `json:"status,omitempty"`
}

// FarmPodSpec describes what a Pod consists of.
type FarmPodSpec struct {
	// containers is the number of containers of the Pod, without init and ephemeral containers.
	Containers int32 `json:"containers"`
}

// FarmPodStatus is the state of a Pod.
type FarmPodStatus struct {
	// podName is the name of the Pod.
	PodName string `json:"podName"`
	// nodeName is the node that the Pod is on; empty if it has none yet.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// phase of the Pod: Pending, Running, Succeeded, Failed or Unknown.
	// +optional
	Phase corev1.PodPhase `json:"phase,omitempty"`
	// reason is why the Pod is in its state, as kubectl shows it in the column STATUS; for instance CrashLoopBackOff. It is the
	// phase if there is no better one.
	// +optional
	Reason string `json:"reason,omitempty"`
	// readyContainers is the number of containers that are ready.
	// +optional
	ReadyContainers int32 `json:"readyContainers,omitempty"`
	// initContainers is the number of init containers of the Pod.
	// +optional
	InitContainers int32 `json:"initContainers,omitempty"`
	// restarts is the number of restarts of all containers of the Pod.
	// +optional
	Restarts int32 `json:"restarts,omitempty"`
	// images of the containers, in the order of the containers.
	// +optional
	// +listType=atomic
	Images []string `json:"images,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FarmPodList is a list of FarmPods.
type FarmPodList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the FarmPods.
	Items []FarmPod `json:"items"`
}
