// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Llama is an animal of the farm.
type Llama struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the llama.
	Spec LlamaSpec `json:"spec"`
}

// LlamaSpec describes a llama.
type LlamaSpec struct {
	// weight in kilograms; more than 0, and at most 1000.
	Weight float64 `json:"weight"`
	// height at the shoulder, in metres; more than 0, and at most 10.
	Height float64 `json:"height"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LlamaList is a list of Llamas.
type LlamaList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Llamas.
	Items []Llama `json:"items"`
}
