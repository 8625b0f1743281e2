// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:resource:path=profiles,singular=profile,categories=millwright,scope=Namespaced

// Profile is a location where data is kept, and the credentials for it. It is read when an action starts.
type Profile struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// location is where data is kept.
	// +optional
	Location Location `json:"location,omitempty"`

	// credential is for the access to the location.
	// +optional
	Credential Credential `json:"credential,omitempty"`

	// skipSSLVerify accepts any certificate of the location. Default: false.
	// +optional
	SkipSSLVerify bool `json:"skipSSLVerify,omitempty"`
}

// LocationType is a kind of store.
type LocationType string

// Kinds of stores.
const (
	LocationTypeS3Compliant LocationType = "s3Compliant"
	LocationTypeGCS         LocationType = "gcs"
	LocationTypeAzure       LocationType = "azure"
	LocationTypeKopia       LocationType = "kopia"
)

// Location is a place in a store.
type Location struct {
	// type of the store: s3Compliant, gcs, azure or kopia.
	// +optional
	Type LocationType `json:"type,omitempty"`

	// bucket, or container, in the store.
	// +optional
	Bucket string `json:"bucket,omitempty"`

	// endpoint is the address of the store, if it is not the usual one.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// prefix of all keys in the bucket.
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// region of the bucket.
	// +optional
	Region string `json:"region,omitempty"`
}

// CredentialType is a kind of credentials.
type CredentialType string

// Kinds of credentials.
const (
	CredentialTypeKeyPair CredentialType = "keyPair"
	CredentialTypeSecret  CredentialType = "secret"
	CredentialTypeKopia   CredentialType = "kopia"
)

// Credential has one member, selected by type.
type Credential struct {
	// type of the credential: keyPair, secret or kopia.
	// +optional
	Type CredentialType `json:"type,omitempty"`

	// keyPair is the name and the secret of an access key.
	// +optional
	KeyPair *KeyPair `json:"keyPair,omitempty"`

	// secret is a Secret of one of the types secrets.kanister.io/aws, azure, gcp or filestore.
	// +optional
	Secret *ObjectReference `json:"secret,omitempty"`

	// kopiaServerSecret has what is needed to connect to a Kopia server.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	KopiaServerSecret *KopiaServerSecret `json:"kopiaServerSecret,omitempty"`
}

// KeyPair is an access key in a Secret.
type KeyPair struct {
	// idField is the key of the access key's name in the Secret.
	// +optional
	IDField string `json:"idField,omitempty"`

	// secretField is the key of the access key's secret in the Secret.
	// +optional
	SecretField string `json:"secretField,omitempty"`

	// secret is the Secret that has both.
	// +optional
	Secret ObjectReference `json:"secret,omitempty"`
}

// KopiaServerSecret has what is needed to connect to a Kopia server.
type KopiaServerSecret struct {
	// username on the server.
	// +optional
	Username string `json:"username,omitempty"`

	// hostname of the user on the server.
	// +optional
	Hostname string `json:"hostname,omitempty"`

	// userPassphrase is the user's passphrase.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	UserPassphrase *KopiaServerSecretRef `json:"userPassphrase,omitempty"`

	// tlsCert is the server's certificate.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	TLSCert *KopiaServerSecretRef `json:"tlsCert,omitempty"`

	// connectOptions are options of the connection, by name.
	// +optional
	ConnectOptions map[string]int `json:"connectOptions,omitempty"`
}

// KopiaServerSecretRef is a key of a Secret.
type KopiaServerSecretRef struct {
	// key in the Secret.
	// +optional
	Key string `json:"key,omitempty"`

	// secret that has it.
	// +optional
	Secret *ObjectReference `json:"secret,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ProfileList is a list of Profiles.
type ProfileList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Profiles.
	Items []Profile `json:"items"`
}
