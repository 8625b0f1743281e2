// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Params is the root of all templates of one action. The names of the fields are an interface: Blueprints use them.
type Params struct {
	// StatefulSet, Deployment, DeploymentConfig, PVC and Namespace describe the subject. The others than its own are nil.
	StatefulSet      *Workload
	Deployment       *Workload
	DeploymentConfig *Workload
	PVC              *Reference
	Namespace        *Reference
	// Object is the subject itself, of whatever kind.
	Object map[string]any

	ArtifactsIn map[string]Artifact
	ConfigMaps  map[string]corev1.ConfigMap
	Secrets     map[string]corev1.Secret
	Profile     *Profile
	Options     map[string]string
	// Time is when the action started, in UTC, formatted as time.RFC3339Nano. It is the only clock that templates have.
	Time string
	// Phases holds the phases that have started. A phase has an output when it has ended.
	Phases map[string]Phase
	// DeferPhase is empty until the deferPhase starts.
	DeferPhase Phase
	// CurrentPhase is always nil. Templates may ask.
	CurrentPhase *Phase

	PodOverride    map[string]any
	PodAnnotations map[string]string
	PodLabels      map[string]string
}

// Workload is a subject that has Pods.
type Workload struct {
	Name      string
	Namespace string
	Pods      []string
	// Containers has the names of each Pod's containers, in the order of Pods.
	Containers [][]string
	// PersistentVolumeClaims is the mount path by Pod and claim.
	PersistentVolumeClaims map[string]map[string]string
}

// Reference names a subject.
type Reference struct {
	Name      string
	Namespace string
}

// Artifact is what one action leaves to another. Its JSON is an interface, as its fields are.
type Artifact struct {
	KeyValue      map[string]string `json:"keyValue,omitempty"`
	KopiaSnapshot string            `json:"kopiaSnapshot,omitempty"`
}

// Phase is what a template may ask of a phase.
type Phase struct {
	Secrets    map[string]corev1.Secret
	ConfigMaps map[string]corev1.ConfigMap
	Output     map[string]any
}

// Profile is where and with which credentials data is kept. Its JSON is an interface: tools inside images parse it.
type Profile struct {
	Location      Location
	Credential    Credential
	SkipSSLVerify bool
}

// Location is a place in an object store.
type Location struct {
	Type     string `json:"type"`
	Bucket   string `json:"bucket"`
	Endpoint string `json:"endpoint"`
	Prefix   string `json:"prefix"`
	Region   string `json:"region"`
}

// Credential is one of its members, which Type names.
type Credential struct {
	Type              string
	KeyPair           *KeyPair
	Secret            *corev1.Secret
	KopiaServerSecret *KopiaServerSecret
}

// String is the type alone. A credential that is printed shows no more; its JSON does.
func (c Credential) String() string { return c.Type }

// KeyPair is the name and the secret of an access key.
type KeyPair struct {
	ID     string
	Secret string
}

// KopiaServerSecret is how a Kopia server is reached.
type KopiaServerSecret struct {
	Username       string
	Hostname       string
	Password       string
	Cert           string
	ConnectOptions map[string]int
}

func (w *Workload) clone() *Workload {
	if w == nil {
		return nil
	}
	copied := *w
	copied.Pods = slices.Clone(w.Pods)
	copied.Containers = slices.Clone(w.Containers)
	for i := range copied.Containers {
		copied.Containers[i] = slices.Clone(copied.Containers[i])
	}
	return &copied
}

func cloneMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	copied := make(map[string]any, len(m))
	for key, value := range m {
		copied[key] = cloneValue(value)
	}
	return copied
}

func cloneValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return cloneMap(value)
	case []any:
		copied := make([]any, len(value))
		for i := range value {
			copied[i] = cloneValue(value[i])
		}
		return copied
	default:
		return value
	}
}
