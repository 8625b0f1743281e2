// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func fullMeta() metav1.ObjectMeta {
	at := metav1.NewTime(time.Date(2026, 8, 1, 4, 3, 2, 1, time.FixedZone("", 7200)))
	return metav1.ObjectMeta{
		SelfLink: "/s", //lint:ignore SA1019 templates may ask for it
		Name:     "n", GenerateName: "g", Namespace: "ns", UID: "u", ResourceVersion: "7", Generation: 3, CreationTimestamp: at,
		DeletionTimestamp: &at, DeletionGracePeriodSeconds: ptr.To[int64](0), Labels: map[string]string{"b": "<", "a": "1"},
		Annotations: map[string]string{"x": "y"}, Finalizers: []string{"f"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "K", Name: "o", UID: "p", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false)}, {},
		},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "m", Operation: "Apply", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:z": {}, "f:a":"<"}`), Subresource: "status"}, {},
		},
	}
}

func TestViewsMatchTheirJSON(t *testing.T) {
	secret := corev1.Secret{
		TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, ObjectMeta: fullMeta(), Immutable: ptr.To(true),
		Data: map[string][]byte{"k": []byte("\x00<v"), "empty": {}, "nil": nil}, StringData: map[string]string{"s": "t"}, Type: "Opaque",
	}
	config := corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: fullMeta(), Immutable: ptr.To(false),
		Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {1}},
	}
	for _, pair := range [][2]any{
		{secret, secretOf(secret)}, {config, configMapOf(config)},
		{corev1.Secret{}, secretOf(corev1.Secret{})}, {corev1.ConfigMap{}, configMapOf(corev1.ConfigMap{})},
	} {
		want, err := json.Marshal(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(pair[1]); err != nil || string(got) != string(want) {
			t.Errorf("%T as JSON is\n%s, %v, want\n%s", pair[1], got, err, want)
		}
	}
}

func TestPlainTypesHaveTheFieldsOfTheirNamesakes(t *testing.T) {
	for plain, of := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[root]():               reflect.TypeFor[Params](),
		reflect.TypeFor[phase]():              reflect.TypeFor[Phase](),
		reflect.TypeFor[profile]():            reflect.TypeFor[Profile](),
		reflect.TypeFor[credential]():         reflect.TypeFor[Credential](),
		reflect.TypeFor[secret]():             reflect.TypeFor[corev1.Secret](),
		reflect.TypeFor[configMap]():          reflect.TypeFor[corev1.ConfigMap](),
		reflect.TypeFor[TypeMeta]():           reflect.TypeFor[metav1.TypeMeta](),
		reflect.TypeFor[ObjectMeta]():         reflect.TypeFor[metav1.ObjectMeta](),
		reflect.TypeFor[OwnerReference]():     reflect.TypeFor[metav1.OwnerReference](),
		reflect.TypeFor[ManagedFieldsEntry](): reflect.TypeFor[metav1.ManagedFieldsEntry](),
	} {
		if plain.NumField() != of.NumField() {
			t.Errorf("%s has %d fields, %s has %d", plain, plain.NumField(), of, of.NumField())
		}
		for i := range of.NumField() {
			if _, found := plain.FieldByName(of.Field(i).Name); !found {
				t.Errorf("%s lacks %s", plain, of.Field(i).Name)
			}
		}
	}
}

// What a method takes cannot be known before it is called.
func TestNothingThatTemplatesAreGivenHasMethods(t *testing.T) {
	known := map[reflect.Type]bool{
		reflect.TypeFor[credential]():      true, // String
		reflect.TypeFor[json.RawMessage](): true, // MarshalJSON, which returns it
	}
	seen := map[reflect.Type]bool{}
	var look func(of reflect.Type)
	look = func(of reflect.Type) {
		if seen[of] {
			return
		}
		seen[of] = true
		if methods := reflect.PointerTo(of).NumMethod(); methods > 0 && !known[of] && of.Kind() != reflect.Pointer {
			t.Errorf("%s has %d methods", of, methods)
		}
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			look(of.Elem())
		case reflect.Map:
			look(of.Key())
			look(of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				look(of.Field(i).Type)
			}
		}
	}
	look(reflect.TypeFor[root]())
}

func TestEveryRootHasTheJSONOfThePeer(t *testing.T) {
	const secretJSON = `{"metadata":{"name":"creds","namespace":"db"},"data":{"password":"aHVudGVyMg=="}}`
	full, empty := testParams(), Params{Time: testParams().Time}
	for source, want := range map[string][2]string{
		`{{ toJson .StatefulSet }}`: {`{"Name":"pg","Namespace":"db","Pods":["pg-1","pg-0"],"Containers":[["main","side"],["main"]],` +
			`"PersistentVolumeClaims":{"pg-0":{"data-pg-0":"/data"}}}`, "null"},
		`{{ toJson .Deployment }}`:     {"null", "null"},
		`{{ toJson .PVC }}`:            {"null", "null"},
		`{{ toJson .Namespace }}`:      {`{"Name":"db","Namespace":"db"}`, "null"},
		`{{ toJson .Object }}`:         {`{"metadata":{"name":"pg"},"spec":{"replicas":2}}`, "null"},
		`{{ toJson .ArtifactsIn }}`:    {`{"dump":{"keyValue":{"path":"/b/1"},"kopiaSnapshot":"snap"},"none":{}}`, "null"},
		`{{ toJson .ConfigMaps }}`:     {`{"conf":{"metadata":{},"data":{"bucket":"bkt"}}}`, "null"},
		`{{ toJson .Secrets }}`:        {`{"creds":` + secretJSON + `}`, "null"},
		`{{ toJson .Options }}`:        {`{"tag":"v1"}`, "null"},
		`{{ toJson .Time }}`:           {`"2026-08-01T02:03:04.000000005Z"`, `"2026-08-01T02:03:04.000000005Z"`},
		`{{ toJson .CurrentPhase }}`:   {"null", "null"},
		`{{ toJson .DeferPhase }}`:     {`{"Secrets":null,"ConfigMaps":null,"Output":{"done":"yes"}}`, `{"Secrets":null,"ConfigMaps":null,"Output":null}`},
		`{{ toJson .PodOverride }}`:    {`{"hostNetwork":true}`, "null"},
		`{{ toJson .PodAnnotations }}`: {`{"note":"n"}`, "null"},
		`{{ toJson .PodLabels }}`:      {`{"app":"l"}`, "null"},
		`{{ toJson .Phases }}`: {`{"a-b":{"Secrets":null,"ConfigMaps":null,"Output":{"k":"v"}},` +
			`"dump":{"Secrets":{"creds":` + secretJSON + `},"ConfigMaps":{},"Output":{"nested":{"a":"b"},"size":"12"}}}`, "{}"},
	} {
		full.ArtifactsIn["none"], empty.Phases = Artifact{}, map[string]Phase{}
		for i, params := range []Params{full, empty} {
			if got, err := render(t, params, source); err != nil || got != want[i] {
				t.Errorf("%s gives\n%s, %v, want\n%s", source, got, err, want[i])
			}
		}
	}
}
