// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:resource:path=llamarecords,singular=llamarecord,scope=Namespaced

// LlamaRecord stores a Llama. Use Llamas: a record that a user writes is refused.
type LlamaRecord struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. Only namespace, name, labels and resourceVersion are those of the Llama.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the Llama.
	Spec LlamaRecordSpec `json:"spec"`
}

// LlamaRecordSpec holds a Llama.
type LlamaRecordSpec struct {
	// object is the Llama as its API server has encoded it, with all of its metadata except the resourceVersion.
	// ---
	// It is written as a whole: the managedFields of a record need not list each field of the Llama.
	// +structType=atomic
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Object runtime.RawExtension `json:"object"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LlamaRecordList is a list of LlamaRecords.
type LlamaRecordList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the LlamaRecords.
	Items []LlamaRecord `json:"items"`
}
