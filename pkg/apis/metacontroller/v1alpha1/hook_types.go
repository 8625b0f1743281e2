// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hook is a function of the author of a controller. The engine calls it to learn the desired state. A hook without a webhook
// is never called.
type Hook struct {
	// version of the protocol. It sets the keys of objects in a request (v1: name, v2: namespace/name), and whether the request
	// for a namespaced parent has objects of other namespaces. Each hook has its own.
	// +optional
	// +kubebuilder:default=v1
	Version HookVersion `json:"version,omitempty"`

	// webhook is how to call the hook over HTTP.
	// +optional
	Webhook *Webhook `json:"webhook,omitempty"`
}

// HookVersion is a version of the protocol between engine and hook.
//
// +kubebuilder:validation:Enum=v1;v2
type HookVersion string

// Versions of the protocol.
const (
	HookVersionV1 HookVersion = "v1"
	HookVersionV2 HookVersion = "v2"
)

// Webhook is a hook that is called by an HTTP POST. Either url is set, or service and path.
type Webhook struct {
	// url of the hook, for instance http://my-hook.my-namespace/sync. It takes precedence over service and path.
	// +optional
	URL *string `json:"url,omitempty"`

	// timeout of a call, from the connection to the end of the answer, for instance 30s. Default: 10s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration(self)",message="must be a duration as in 30s or 1h30m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// path is appended, unchanged, to the address of the service, for instance /sync.
	// +optional
	Path *string `json:"path,omitempty"`

	// service in the cluster that serves the hook.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`

	// etag lets the hook answer with 304 if its last answer is still valid.
	// +optional
	Etag *WebhookEtagConfig `json:"etag,omitempty"`

	// responseUnMarshallMode is how unknown fields of an answer are treated: loose ignores them, strict makes them an error.
	// Default: loose for a hook of version v1, strict for v2.
	// +optional
	ResponseUnMarshallMode *ResponseUnMarshallMode `json:"responseUnMarshallMode,omitempty"`

	WebhookAccess `json:",inline"`
}

// ResponseUnMarshallMode is how strictly an answer is read.
//
// +kubebuilder:validation:Enum=loose;strict
type ResponseUnMarshallMode string

// How strictly an answer is read.
const (
	ResponseUnMarshallModeLoose  ResponseUnMarshallMode = "loose"
	ResponseUnMarshallModeStrict ResponseUnMarshallMode = "strict"
)

// ServiceReference is a Service, found by the name that the cluster's DNS has for it.
type ServiceReference struct {
	// name of the Service.
	// +required
	Name string `json:"name"`

	// namespace of the Service.
	// +required
	Namespace string `json:"namespace"`

	// port of the Service. Default: 80.
	// +optional
	Port *int32 `json:"port,omitempty"`

	// protocol is http or https. Default: http.
	// +optional
	Protocol *string `json:"protocol,omitempty"`
}

// WebhookEtagConfig is for hooks that set an ETag on their answers.
type WebhookEtagConfig struct {
	// enabled turns it on.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// cacheTimeoutSeconds is how long an answer may be used again. Default: without a limit.
	// +optional
	CacheTimeoutSeconds *int32 `json:"cacheTimeoutSeconds,omitempty"`

	// cacheCleanupSeconds is how often answers that are too old are removed. Default: every cacheTimeoutSeconds.
	// +optional
	CacheCleanupSeconds *int32 `json:"cacheCleanupSeconds,omitempty"`
}

// ResourceRule is a type of objects, by the name under which the API server serves it.
type ResourceRule struct {
	// apiVersion is group/version, or only the version for the core group: apps/v1, v1.
	// +required
	APIVersion string `json:"apiVersion"`

	// resource is the lower-case plural name of the type: deployments, not Deployment.
	// +required
	Resource string `json:"resource"`
}

// ChildUpdateMethod is what the engine does with a child that differs from what the hook desires.
//
// +kubebuilder:validation:Enum=OnDelete;Recreate;InPlace;RollingRecreate;RollingInPlace
type ChildUpdateMethod string

// What the engine does with a child that differs from what the hook desires.
const (
	// ChildUpdateOnDelete leaves it until another client deletes it. It is the default.
	ChildUpdateOnDelete ChildUpdateMethod = "OnDelete"
	// ChildUpdateRecreate deletes it, and creates it again once it has gone.
	ChildUpdateRecreate ChildUpdateMethod = "Recreate"
	// ChildUpdateInPlace updates it.
	ChildUpdateInPlace ChildUpdateMethod = "InPlace"
	// ChildUpdateRollingRecreate is Recreate, one child after the other.
	ChildUpdateRollingRecreate ChildUpdateMethod = "RollingRecreate"
	// ChildUpdateRollingInPlace is InPlace, one child after the other.
	ChildUpdateRollingInPlace ChildUpdateMethod = "RollingInPlace"
)
