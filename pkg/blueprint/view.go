// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// root is what templates see of Params. It has the same fields. Secrets and ConfigMaps are plain data there, with the fields and the JSON
// that they have elsewhere but without methods, which templates could call and which are not paid for.
type root struct {
	StatefulSet, Deployment, DeploymentConfig *Workload
	PVC, Namespace                            *Reference
	Object                                    map[string]any
	ArtifactsIn                               map[string]Artifact
	ConfigMaps                                map[string]configMap
	Secrets                                   map[string]secret
	Profile                                   *profile
	Options                                   map[string]string
	Time                                      string
	Phases                                    map[string]phase
	DeferPhase                                phase
	CurrentPhase                              *phase
	PodOverride                               map[string]any
	PodAnnotations, PodLabels                 map[string]string
}

// phase, profile and credential are Phase, Profile and Credential of plain data.
type phase struct {
	Secrets    map[string]secret
	ConfigMaps map[string]configMap
	Output     map[string]any
}

type profile struct {
	Location      Location
	Credential    credential
	SkipSSLVerify bool
}

type credential struct {
	Type              string
	KeyPair           *KeyPair
	Secret            *secret
	KopiaServerSecret *KopiaServerSecret
}

// String is the type alone. A credential that is printed shows no more; its JSON does.
func (c credential) String() string { return c.Type }

// TypeMeta is plain data with the fields of its namesake, as are the types below. Templates know some of them by these names.
type TypeMeta struct {
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

// ObjectMeta has times as texts of time.RFC3339, as in JSON.
type ObjectMeta struct {
	Name                       string               `json:"name,omitempty"`
	GenerateName               string               `json:"generateName,omitempty"`
	Namespace                  string               `json:"namespace,omitempty"`
	SelfLink                   string               `json:"selfLink,omitempty"`
	UID                        string               `json:"uid,omitempty"`
	ResourceVersion            string               `json:"resourceVersion,omitempty"`
	Generation                 int64                `json:"generation,omitempty"`
	CreationTimestamp          string               `json:"creationTimestamp,omitempty"`
	DeletionTimestamp          string               `json:"deletionTimestamp,omitempty"`
	DeletionGracePeriodSeconds *int64               `json:"deletionGracePeriodSeconds,omitempty"`
	Labels                     map[string]string    `json:"labels,omitempty"`
	Annotations                map[string]string    `json:"annotations,omitempty"`
	OwnerReferences            []OwnerReference     `json:"ownerReferences,omitempty"`
	Finalizers                 []string             `json:"finalizers,omitempty"`
	ManagedFields              []ManagedFieldsEntry `json:"managedFields,omitempty"`
}

// OwnerReference is plain data.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         *bool  `json:"controller,omitempty"`
	BlockOwnerDeletion *bool  `json:"blockOwnerDeletion,omitempty"`
}

// ManagedFieldsEntry is plain data.
type ManagedFieldsEntry struct {
	Manager     string          `json:"manager,omitempty"`
	Operation   string          `json:"operation,omitempty"`
	APIVersion  string          `json:"apiVersion,omitempty"`
	Time        string          `json:"time,omitempty"`
	FieldsType  string          `json:"fieldsType,omitempty"`
	FieldsV1    json.RawMessage `json:"fieldsV1,omitempty"`
	Subresource string          `json:"subresource,omitempty"`
}

type secret struct {
	TypeMeta
	ObjectMeta `json:"metadata,omitempty"`
	Immutable  *bool             `json:"immutable,omitempty"`
	Data       map[string][]byte `json:"data,omitempty"`
	StringData map[string]string `json:"stringData,omitempty"`
	Type       string            `json:"type,omitempty"`
}

type configMap struct {
	TypeMeta
	ObjectMeta `json:"metadata,omitempty"`
	Immutable  *bool             `json:"immutable,omitempty"`
	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
}

// rootOf copies all that a template could change: functions such as set, merge and sortAlpha work in place.
func rootOf(p Params) root {
	r := root{
		StatefulSet: p.StatefulSet.clone(), Deployment: p.Deployment.clone(), DeploymentConfig: p.DeploymentConfig.clone(),
		PVC: p.PVC, Namespace: p.Namespace, Object: cloneMap(p.Object),
		ArtifactsIn: p.ArtifactsIn, ConfigMaps: converted(p.ConfigMaps, configMapOf), Secrets: converted(p.Secrets, secretOf),
		Options: p.Options, Time: p.Time, Phases: converted(p.Phases, phaseOf), DeferPhase: phaseOf(p.DeferPhase),
		PodOverride: cloneMap(p.PodOverride), PodAnnotations: p.PodAnnotations, PodLabels: p.PodLabels,
	}
	if p.Profile != nil {
		of := p.Profile.Credential
		r.Profile = &profile{
			Location: p.Profile.Location, SkipSSLVerify: p.Profile.SkipSSLVerify,
			Credential: credential{Type: of.Type, KeyPair: of.KeyPair, KopiaServerSecret: of.KopiaServerSecret},
		}
		if of.Secret != nil {
			plain := secretOf(*of.Secret)
			r.Profile.Credential.Secret = &plain
		}
	}
	return r
}

func converted[From, To any](from map[string]From, convert func(From) To) map[string]To {
	if from == nil {
		return nil
	}
	to := make(map[string]To, len(from))
	for name, each := range from {
		to[name] = convert(each)
	}
	return to
}

func phaseOf(p Phase) phase {
	return phase{Secrets: converted(p.Secrets, secretOf), ConfigMaps: converted(p.ConfigMaps, configMapOf), Output: cloneMap(p.Output)}
}

func secretOf(s corev1.Secret) secret {
	return secret{
		TypeMeta: TypeMeta(s.TypeMeta), ObjectMeta: objectMetaOf(&s.ObjectMeta),
		Immutable: s.Immutable, Data: s.Data, StringData: s.StringData, Type: string(s.Type),
	}
}

func configMapOf(c corev1.ConfigMap) configMap {
	return configMap{
		TypeMeta: TypeMeta(c.TypeMeta), ObjectMeta: objectMetaOf(&c.ObjectMeta),
		Immutable: c.Immutable, Data: c.Data, BinaryData: c.BinaryData,
	}
}

func objectMetaOf(m *metav1.ObjectMeta) ObjectMeta {
	of := ObjectMeta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace, UID: string(m.UID),
		SelfLink:        m.SelfLink, //lint:ignore SA1019 templates may ask for it
		ResourceVersion: m.ResourceVersion, Generation: m.Generation, CreationTimestamp: timeText(&m.CreationTimestamp),
		DeletionTimestamp: timeText(m.DeletionTimestamp), DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Labels: m.Labels, Annotations: m.Annotations, Finalizers: m.Finalizers,
	}
	for _, o := range m.OwnerReferences {
		of.OwnerReferences = append(of.OwnerReferences, OwnerReference{
			APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: string(o.UID), Controller: o.Controller, BlockOwnerDeletion: o.BlockOwnerDeletion,
		})
	}
	for _, f := range m.ManagedFields {
		entry := ManagedFieldsEntry{
			Manager: f.Manager, Operation: string(f.Operation), APIVersion: f.APIVersion, Time: timeText(f.Time),
			FieldsType: f.FieldsType, Subresource: f.Subresource,
		}
		if f.FieldsV1 != nil {
			entry.FieldsV1 = f.FieldsV1.GetRawBytes()
		}
		of.ManagedFields = append(of.ManagedFields, entry)
	}
	return of
}

func timeText(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
