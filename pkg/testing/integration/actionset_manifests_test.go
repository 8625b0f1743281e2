// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/testing/testcluster"
)

// everyField has a manifest of each kind with all fields that Kanister's manifests may have. The key is the plural of the kind.
var everyField = map[string]string{
	"blueprints": `
kind: Blueprint
metadata: {name: every-field}
actions:
  backup:
    name: backup
    kind: StatefulSet
    configMapNames: [location]
    secretNames: [credentials]
    inputArtifactNames: [previous]
    outputArtifacts:
      dump:
        keyValue: {path: '{{ .Phases.dump.Output.path }}'}
        kopiaSnapshot: '{{ .Phases.dump.Output.snapshot }}'
    phases:
    - func: KubeTask
      name: dump
      objects:
        secret: {apiVersion: v1, group: "", resource: secrets, kind: Secret, name: '{{ .Object.metadata.name }}', namespace: db}
      args:
        namespace: '{{ .StatefulSet.Namespace }}'
        image: registry.example/tools:1
        command: [sh, -c, 'kando location push --profile ''{{ toJson .Profile }}'' -']
        podOverride: {containers: [{name: container, env: [{name: A, value: b}]}], terminationGracePeriodSeconds: 1}
        podLabels: {a: b}
        deep: {deeper: [1, 2.5, true, null, text, {deepest: {}}]}
        nothing: null
    deferPhase:
      func: KubeOps
      name: release
      objects:
        config: {apiVersion: v1, group: "", resource: configmaps, kind: ConfigMap, name: c}
      args: {operation: delete, objectReference: {apiVersion: v1, resource: configmaps, name: quiesced}}
`,
	"actionsets": `
kind: ActionSet
metadata: {name: every-field}
spec:
  actions:
  - name: backup
    object: {apiVersion: v1, group: apps, resource: statefulsets, kind: StatefulSet, name: db, namespace: db}
    blueprint: every-field
    artifacts:
      previous: {keyValue: {path: /a}, kopiaSnapshot: '{"id":"1"}'}
    configMaps: {location: {apiVersion: v1, group: "", resource: configmaps, kind: ConfigMap, name: c, namespace: db}}
    secrets: {credentials: {apiVersion: v1, group: "", resource: secrets, kind: Secret, name: s, namespace: db}}
    profile: {apiVersion: v1alpha1, group: cr.kanister.io, resource: profiles, kind: Profile, name: p, namespace: db}
    podOverride: {tolerations: [{operator: Exists}], serviceAccountName: backup}
    options: {deadline: "5"}
    preferredVersion: v1.0.0-alpha
    podLabels: {a: b}
    podAnnotations: {c: d}
`,
	"profiles": `
kind: Profile
metadata: {name: every-field}
location: {type: s3Compliant, bucket: b, endpoint: 'https://s3.example:9000', prefix: p, region: eu-1}
credential:
  type: keyPair
  keyPair:
    idField: id
    secretField: secret
    secret: {apiVersion: v1, group: "", resource: secrets, kind: Secret, name: s, namespace: db}
  secret: {apiVersion: v1, group: "", resource: secrets, kind: Secret, name: s, namespace: db}
  kopiaServerSecret:
    username: u
    hostname: h
    userPassphrase: {key: k, secret: {apiVersion: v1, group: "", resource: secrets, kind: Secret, name: s, namespace: db}, other: 1}
    tlsCert: {key: k, secret: {apiVersion: v1, group: "", resource: secrets, kind: Secret, name: s, namespace: db}, other: 1}
    connectOptions: {maxAttempts: 3}
    other: {more: true}
skipSSLVerify: true
`,
}

// sparse has manifests with few fields, as users and the clients of Kanister write them.
var sparse = map[string][]string{
	"blueprints": {
		`{}`,
		`{actions: {}}`,
		`{actions: {go: {}}}`,
		`{actions: {go: {phases: [{}]}}}`,
		`{actions: {go: {name: "", kind: "", configMapNames: null, secretNames: null, inputArtifactNames: null, outputArtifacts: null, phases: null, deferPhase: null}}}`,
		`{actions: {go: {phases: [{func: KubeOps, name: a, objects: null, args: null}]}}}`,
	},
	"actionsets": {
		`{}`,
		`{spec: {}}`,
		`{spec: {actions: []}}`,
		`{spec: {actions: [{}]}}`,
		`{spec: {actions: [{name: a, object: {apiVersion: "", group: "", resource: "", kind: Namespace, name: ns}, blueprint: b, configMaps: null, secrets: null, profile: null, options: null, preferredVersion: "", podLabels: null, podAnnotations: null}]}}`,
	},
	"profiles": {
		`{}`,
		`{location: {type: ""}, credential: {type: "", keyPair: null}, skipSSLVerify: false}`,
	},
}

var crKinds = map[string]string{"blueprints": "Blueprint", "actionsets": "ActionSet", "profiles": "Profile"}

func TestActionSetKanisterManifests(t *testing.T) {
	cluster := testcluster.Shared(t)
	namespace := cluster.Namespace(t)
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	for plural, text := range everyField {
		t.Run(plural, func(t *testing.T) {
			given := manifest(t, plural, text)
			resource := client.Resource(v1alpha1.Resource(plural).WithVersion("v1alpha1")).Namespace(namespace)
			created, err := resource.Create(t.Context(), given.DeepCopy(), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err != nil {
				t.Fatalf("create: %v", err)
			}
			stripped := created.DeepCopy()
			stripped.Object["metadata"] = map[string]any{"name": "every-field"}
			if diff := cmp.Diff(given.Object, stripped.Object); diff != "" {
				t.Errorf("object in the API server (-created +stored):\n%s", diff)
			}
			for _, unknown := range []string{"userPassphrase", "tlsCert", ""} {
				path := append([]string{"credential", "kopiaServerSecret"}, strings.Fields(unknown+" other")...)
				unstructured.RemoveNestedField(given.Object, path...) // the Go types do not have unknown fields
			}
			if diff := cmp.Diff(given.Object, typedContent(t, plural, stripped)); diff != "" {
				t.Errorf("object in the Go types (-created +read):\n%s", diff)
			}
		})
	}
}

func TestActionSetMinimalKanisterManifests(t *testing.T) {
	cluster := testcluster.Shared(t)
	namespace := cluster.Namespace(t)
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	for plural, texts := range sparse {
		for _, text := range texts {
			given := manifest(t, plural, text)
			given.SetName("sparse")
			resource := client.Resource(v1alpha1.Resource(plural).WithVersion("v1alpha1")).Namespace(namespace)
			options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}
			if _, err := resource.Create(t.Context(), given, options); err != nil {
				t.Errorf("create of %s %s: %v", plural, text, err)
			}
		}
	}
}

// The controller would take a status that a user has written for what it has done itself.
func TestActionSetInitialStatusIgnored(t *testing.T) {
	cluster := testcluster.Shared(t)
	client, err := versioned.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	created, err := client.CrV1alpha1().ActionSets(cluster.Namespace(t)).Create(t.Context(), &v1alpha1.ActionSet{
		ObjectMeta: metav1.ObjectMeta{Name: "given"},
		Spec:       &v1alpha1.ActionSetSpec{},
		Status:     &v1alpha1.ActionSetStatus{State: v1alpha1.StateComplete},
	}, metav1.CreateOptions{})
	if err != nil || created.Status != nil {
		t.Errorf("got status %+v (%v), want none", created.Status, err)
	}
}

func TestActionSetKubectlColumns(t *testing.T) {
	cluster := testcluster.Shared(t)
	client, err := versioned.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	namespace := cluster.Namespace(t)
	sets := client.CrV1alpha1().ActionSets(namespace)
	set, err := sets.Create(t.Context(), &v1alpha1.ActionSet{ObjectMeta: metav1.ObjectMeta{Name: "shown"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	set.Status = &v1alpha1.ActionSetStatus{
		State: v1alpha1.StateRunning,
		Progress: v1alpha1.ActionProgress{
			RunningPhase: "dump", PercentCompleted: "33", SizeDownloadedB: 1, SizeUploadedB: 2, EstimatedDownloadSizeB: 3,
			EstimatedUploadSizeB: 4, LastTransitionTime: &now,
		},
	}
	if _, err := sets.UpdateStatus(t.Context(), set, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	shows := func(columns, row string, flags ...string) {
		t.Helper()
		shown := cluster.Kubectl(t, append([]string{"get", "actionset", "shown", "--namespace", namespace}, flags...)...)
		header, got, _ := strings.Cut(strings.TrimSpace(shown), "\n")
		if got := strings.Join(strings.Fields(header), " "); got != columns {
			t.Errorf("got columns\n%s, want\n%s", got, columns)
		}
		// The last column is the age.
		if got := strings.Join(strings.Fields(got), " "); !strings.HasPrefix(got, row+" ") || strings.Count(got, " ") != strings.Count(row, " ")+1 {
			t.Errorf("got row\n%s, want\n%s and the age", got, row)
		}
	}
	at := now.UTC().Format("2006-01-02T15:04:05Z")
	shows("NAME PROGRESS RUNNING PHASE LAST TRANSITION TIME STATE AGE", "shown 33 dump "+at+" running")
	shows("NAME PROGRESS SIZEDOWNLOADEDB SIZEUPLOADEDB ESTIMATEDDOWNLOADSIZEB ESTIMATEDUPLOADSIZEB RUNNING PHASE LAST TRANSITION TIME STATE AGE",
		"shown 33 1 2 3 4 dump "+at+" running", "-o", "wide")
}

func manifest(t *testing.T, plural, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetAPIVersion("cr.kanister.io/v1alpha1")
	object.SetKind(crKinds[plural])
	return normalized(t, object)
}

// typedContent returns the object as our Go types decode and encode it.
func typedContent(t *testing.T, plural string, object *unstructured.Unstructured) map[string]any {
	t.Helper()
	into := map[string]any{"blueprints": &v1alpha1.Blueprint{}, "actionsets": &v1alpha1.ActionSet{}, "profiles": &v1alpha1.Profile{}}[plural]
	content, err := json.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
	if content, err = json.Marshal(into); err != nil {
		t.Fatal(err)
	}
	read := map[string]any{}
	if err := json.Unmarshal(content, &read); err != nil {
		t.Fatal(err)
	}
	delete(read["metadata"].(map[string]any), "creationTimestamp")
	return normalized(t, &unstructured.Unstructured{Object: read}).Object
}

// normalized returns the object with numbers of the types that clients of the API server read.
func normalized(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	content, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	read := &unstructured.Unstructured{}
	if err := read.UnmarshalJSON(content); err != nil {
		t.Fatal(err)
	}
	return read
}
