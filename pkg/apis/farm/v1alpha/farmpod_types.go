// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FarmPodPrefix comes before the name of a Pod in that of its FarmPod.
const FarmPodPrefix = "farm-"

// +genclient
// +genclient:onlyVerbs=get,list,watch
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FarmPod is a view of a Pod, and changes with it. It cannot be written.
type FarmPod struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. The name is that of the Pod after "farm-"; labels, annotations and times are those of the Pod.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the Pod is made of.
	Spec FarmPodSpec `json:"spec"`
	// status is how the Pod is.
	// +optional
	Status FarmPodStatus `json:"status,omitempty"`
}

// FarmPodSpec is what a Pod is made of.
type FarmPodSpec struct {
	// containers is how many containers the Pod has, without init and ephemeral containers.
	Containers int32 `json:"containers"`
}

// FarmPodStatus is how a Pod is.
type FarmPodStatus struct {
	// podName is the name of the Pod.
	PodName string `json:"podName"`
	// nodeName is the node that the Pod is on; empty if it has none yet.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// phase is that of the Pod: Pending, Running, Succeeded, Failed or Unknown.
	// +optional
	Phase corev1.PodPhase `json:"phase,omitempty"`
	// reason is why the Pod is in its state, as kubectl shows it in the column STATUS; for instance CrashLoopBackOff. It is the
	// phase if there is no better one.
	// +optional
	Reason string `json:"reason,omitempty"`
	// readyContainers is how many of the containers are ready.
	// +optional
	ReadyContainers int32 `json:"readyContainers,omitempty"`
	// initContainers is how many init containers the Pod has.
	// +optional
	InitContainers int32 `json:"initContainers,omitempty"`
	// restarts is how often containers of the Pod were restarted.
	// +optional
	Restarts int32 `json:"restarts,omitempty"`
	// images are those of the containers, in their order.
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
