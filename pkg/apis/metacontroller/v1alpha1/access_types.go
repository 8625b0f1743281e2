// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// WebhookAccess is how a hook and its caller authenticate each other.
type WebhookAccess struct {
	// caBundle has the certificates of the authorities that may sign the hook's certificate. Default: those of the system.
	// +optional
	CABundle *CABundle `json:"caBundle,omitempty"`

	// clientTLS is the certificate that the caller presents.
	// +optional
	ClientTLS *ClientTLS `json:"clientTLS,omitempty"`

	// authorization is the token that the caller sends. It excludes basicAuth.
	// +optional
	Authorization *Authorization `json:"authorization,omitempty"`

	// basicAuth is the user name and password that the caller sends. It excludes authorization.
	// +optional
	BasicAuth *BasicAuth `json:"basicAuth,omitempty"`
}

// EndpointConfig is the access to the hooks of a controller on one host, for hooks that have none of their own.
type EndpointConfig struct {
	// host is a host name, or host:port. Case does not matter, and the ports 80 and 443 may be left out. The host of a Service is
	// name.namespace, or name.namespace:port.
	// +required
	Host string `json:"host"`

	WebhookAccess `json:",inline"`
}

// CABundle is a list of certificates in PEM. Exactly one of the fields must be set.
type CABundle struct {
	// inline has the certificates themselves.
	// +optional
	Inline *string `json:"inline,omitempty"`

	// secretRef is the key of a Secret that has them.
	// +optional
	SecretRef *CABundleKeyReference `json:"secretRef,omitempty"`

	// configMapRef is the key of a ConfigMap that has them.
	// +optional
	ConfigMapRef *CABundleKeyReference `json:"configMapRef,omitempty"`
}

// CABundleKeyReference is the key of a Secret or ConfigMap that has certificates.
type CABundleKeyReference struct {
	// name of the Secret or ConfigMap.
	// +required
	Name string `json:"name"`

	// namespace of the Secret or ConfigMap.
	// +required
	Namespace string `json:"namespace"`

	// key in its data.
	// +optional
	// +kubebuilder:default=ca.crt
	Key string `json:"key,omitempty"`
}

// ClientTLS is the certificate that the caller of a hook presents.
type ClientTLS struct {
	// secretRef is the Secret that has it.
	// +required
	SecretRef SecretReference `json:"secretRef"`

	// certKey is the key of the certificate, in PEM.
	// +optional
	// +kubebuilder:default=tls.crt
	CertKey string `json:"certKey,omitempty"`

	// privateKeyKey is the key of the certificate's private key, in PEM.
	// +optional
	// +kubebuilder:default=tls.key
	PrivateKeyKey string `json:"privateKeyKey,omitempty"`
}

// Authorization is a header "Authorization: <type> <token>".
type Authorization struct {
	// type is the scheme of the token. Basic is refused: use basicAuth.
	// +optional
	// +kubebuilder:default=Bearer
	Type string `json:"type,omitempty"`

	// secretRef is the key of a Secret that has the token.
	// +required
	SecretRef SecretKeyReference `json:"secretRef"`
}

// BasicAuth is a user name and a password.
type BasicAuth struct {
	// secretRef is the Secret that has both.
	// +required
	SecretRef SecretReference `json:"secretRef"`

	// usernameKey is the key of the user name.
	// +optional
	// +kubebuilder:default=username
	UsernameKey string `json:"usernameKey,omitempty"`

	// passwordKey is the key of the password.
	// +optional
	// +kubebuilder:default=password
	PasswordKey string `json:"passwordKey,omitempty"`
}

// SecretReference is a Secret.
type SecretReference struct {
	// name of the Secret.
	// +required
	Name string `json:"name"`

	// namespace of the Secret.
	// +required
	Namespace string `json:"namespace"`
}

// SecretKeyReference is a key of a Secret.
type SecretKeyReference struct {
	// name of the Secret.
	// +required
	Name string `json:"name"`

	// namespace of the Secret.
	// +required
	Namespace string `json:"namespace"`

	// key in its data.
	// +required
	Key string `json:"key"`
}
