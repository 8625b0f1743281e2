// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ObjectReference names an object of any kind.
type ObjectReference struct {
	// apiVersion is the version alone, without the group: v1, not apps/v1.
	// +optional
	APIVersion string `json:"apiVersion"`

	// group of the object's resource; empty for the core group.
	// +optional
	Group string `json:"group"`

	// resource is the lower-case plural name of the type, such as deployments.
	// +optional
	Resource string `json:"resource"`

	// kind of the object. For a subject: StatefulSet, Deployment, PVC or Namespace; for any other kind apiVersion and resource are used.
	// +optional
	Kind string `json:"kind"`

	// name of the object.
	// +optional
	Name string `json:"name"`

	// namespace of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// Artifact is what one action passes on to another, such as the location of a backup.
type Artifact struct {
	// keyValue are names and values. Those of a Blueprint are templates.
	// +optional
	KeyValue map[string]string `json:"keyValue,omitempty"`

	// kopiaSnapshot describes a snapshot, as tools inside images print it. That of a Blueprint is a template.
	// +optional
	KopiaSnapshot string `json:"kopiaSnapshot,omitempty"`
}
