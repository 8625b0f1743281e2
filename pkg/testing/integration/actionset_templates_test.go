// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// recordPhase returns a phase that writes what the templates render into a ConfigMap, named after the scenario and the phase.
func recordPhase(phase, objects string, templates map[string]string) string {
	var spec strings.Builder
	fmt.Fprintf(&spec, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: $ME-%s}\ndata:\n", phase)
	for _, key := range slices.Sorted(maps.Keys(templates)) {
		fmt.Fprintf(&spec, "  %s: {{ %s | quote }}\n", key, templates[key])
	}
	quoted, _ := json.Marshal(spec.String())
	return fmt.Sprintf("{func: KubeOps, name: %s, objects: {%s}, args: {operation: create, namespace: $NS, spec: %s}}", phase, objects, quoted)
}

func (e *actionsEnv) createSecret(name string, secretType corev1.SecretType, data map[string]string) *corev1.Secret {
	e.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: secretType, StringData: data}
	created, err := e.kube.CoreV1().Secrets(e.namespace).Create(e.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return created
}

func (e *actionsEnv) createProfile(name, text string) {
	e.Helper()
	profile := &v1alpha1.Profile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(e.text(name, text)), profile); err != nil {
		e.Fatal(err)
	}
	if _, err := e.client.CrV1alpha1().Profiles(e.namespace).Create(e.Context(), profile, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// createStatefulSet creates a StatefulSet of one Pod on the node that mounts the claim, and waits until the Pod runs.
func (e *actionsEnv) createStatefulSet(name, claim string) {
	e.Helper()
	labels := map[string]string{"app": name}
	_, err := e.kube.AppsV1().StatefulSets(e.namespace).Create(e.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{corev1.LabelHostname: e.node.name}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers: []corev1.Container{{Name: "main", Image: "sleep", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/data"}}}},
					Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
					}}},
				},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.eventually(func() string {
		if pods := e.awaitPods(name, 1); pods[0].Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("Pod %s is %s", pods[0].Name, pods[0].Status.Phase)
		}
		return ""
	})
}

func TestActionSetTemplates(t *testing.T) {
	e := newActionsEnv(t)
	e.startNode(map[string]program{"mounts": func(_ context.Context, c *call) int {
		mounts, _ := json.Marshal(c.pod.Spec.Containers[0].VolumeMounts[0])
		c.output("mounts", string(mounts))
		return 0
	}})
	e.createClaim("data", corev1.ReadWriteOnce)
	e.createStatefulSet("db", "data")
	e.createConfigMap("given", map[string]string{"key": "of the config map"})
	e.createSecret("given", corev1.SecretTypeOpaque, map[string]string{"key": "of the secret"})
	e.createSecret("s3", corev1.SecretTypeOpaque, map[string]string{"id": "AKIDEXAMPLE", "secret": "sec<ret>&1"})
	e.createProfile("profile", `
location: {type: s3Compliant, bucket: bkt, endpoint: "https://s3.example.test:9000", prefix: pre/fix, region: eu-1}
credential: {type: keyPair, keyPair: {idField: id, secretField: secret, secret: {name: s3, namespace: $NS}}}
skipSSLVerify: true
`)
	e.run(nil)
	e.blueprint("root", goPhases(
		recordPhase("first", "", map[string]string{"none": "toJson .Phases"}),
		recordPhase("a-b", "s: {kind: Secret, name: '{{ .Options.secret }}', namespace: $NS}, c: {kind: ConfigMap, name: given, namespace: $NS}", map[string]string{
			"statefulset": "toJson .StatefulSet", "deployment": "toJson .Deployment", "pvc": "toJson .PVC", "namespace": "toJson .Namespace",
			"object": ".Object.metadata.name", "artifact": ".ArtifactsIn.in.KeyValue.path", "snapshot": ".ArtifactsIn.in.KopiaSnapshot",
			"configmap": ".ConfigMaps.c.Data.key", "secret": ".Secrets.s.Data.key | toString", "kind": ".Secrets.s.Kind",
			"profile": "toJson .Profile", "option": ".Options.o", "time": ".Time",
			"output": ".Phases.first.Output.name",
			"own":    "(index .Phases \"a-b\").Secrets.s.Data.key | toString", "ownmap": "(index .Phases \"a-b\").ConfigMaps.c.Data.key",
			"override": "toJson .PodOverride", "labels": "toJson .PodLabels", "annotations": "toJson .PodAnnotations",
			"current": "toJson .CurrentPhase",
		}),
		"{func: PrepareData, name: volumes, args: {namespace: $NS, image: mounts, command: [go]}}",
	)+withDefer(recordPhase("cleanup", "s: {kind: Secret, name: given, namespace: $NS}", map[string]string{
		"deferred": ".DeferPhase.Secrets.s.Data.key | toString", "output": `index .Phases.first.Output "name"`, "time": ".Time",
	}))+"  outputArtifacts: {all: {keyValue: {defer: '{{ .DeferPhase.Output.name }}', mounts: '{{ .Phases.volumes.Output.mounts }}'}}}\n")
	e.actionSet("root", `{name: go, blueprint: root, object: {kind: StatefulSet, name: db, namespace: $NS},
    artifacts: {in: {keyValue: {path: /a}, kopiaSnapshot: snap}}, configMaps: {c: {name: given, namespace: $NS}}, secrets: {s: {name: given, namespace: $NS}},
    profile: {name: profile, namespace: $NS}, options: {o: option, secret: given}, podLabels: {l: label}, podAnnotations: {a: annotation},
    podOverride: {nodeSelector: {kubernetes.io/hostname: `+e.node.name+`}, tolerations: [{operator: Exists}]}}`)
	set := e.wantEnd("root", "complete first=complete a-b=complete volumes=complete defer cleanup=complete; 100%")
	got := e.configMap("root-a-b")
	want := map[string]string{
		"statefulset": `{"Name":"db","Namespace":"` + e.namespace + `","Pods":["db-0"],"Containers":[["main"]],"PersistentVolumeClaims":{"db-0":{"data":"/data"}}}`,
		"deployment":  "null", "pvc": "null", "namespace": "null", "object": "db", "artifact": "/a", "snapshot": "snap",
		"configmap": "of the config map", "secret": "of the secret", "kind": "",
		"profile": `{"Location":{"type":"s3Compliant","bucket":"bkt","endpoint":"https://s3.example.test:9000","prefix":"pre/fix","region":"eu-1"},` +
			`"Credential":{"Type":"keyPair","KeyPair":{"ID":"AKIDEXAMPLE","Secret":"sec\u003cret\u003e\u00261"},"Secret":null,"KopiaServerSecret":null},"SkipSSLVerify":true}`,
		"option": "option", "time": got["time"], "output": "root-first", "own": "of the secret", "ownmap": "of the config map",
		"override": `{"nodeSelector":{"kubernetes.io/hostname":"` + e.node.name + `"},"tolerations":[{"operator":"Exists"}]}`,
		"labels":   `{"l":"label"}`, "annotations": `{"a":"annotation"}`, "current": "null",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what templates see (-want +got):\n%s", diff)
	}
	if at, err := time.Parse(time.RFC3339Nano, got["time"]); err != nil || at.Location() != time.UTC {
		t.Errorf(".Time: got %q (%v), want RFC 3339 in UTC", got["time"], err)
	}
	deferred := map[string]string{"deferred": "of the secret", "output": "root-first", "time": got["time"]}
	if diff := cmp.Diff(deferred, e.configMap("root-cleanup")); diff != "" {
		t.Errorf("what templates of the deferPhase see (-want +got):\n%s", diff)
	}
	artifacts := map[string]v1alpha1.Artifact{"all": {KeyValue: map[string]string{
		"defer": "root-cleanup", "mounts": `{"name":"vol-data","mountPath":"/mnt/prepare_data/data"}`,
	}}}
	if diff := cmp.Diff(artifacts, set.Status.Actions[0].Artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
}

func TestActionSetTemplatesOtherSubjects(t *testing.T) {
	e := newActionsEnv(t)
	secret := e.createSecret("aws", "secrets.kanister.io/aws", map[string]string{"aws_access_key_id": "id", "aws_secret_access_key": "key"})
	e.createProfile("profile", "{location: {type: s3Compliant, bucket: bkt}, credential: {type: secret, secret: {name: aws, namespace: $NS}}}")
	e.createClaim("data", corev1.ReadWriteOnce)
	e.createDeployment("app", false)
	e.kubectl("rollout", "status", "deployment", "app")
	pod := e.awaitPods("app", 1)[0].Name
	e.run(nil)
	for name, object := range map[string]string{
		"namespace": "{kind: Namespace, name: $NS, namespace: other}", "pvc": "{kind: pvc, name: data, namespace: $NS}",
		"deployment": "{kind: Deployment, name: app, namespace: $NS}",
	} {
		e.blueprint(name, goPhases(recordPhase("sees", "", map[string]string{
			"subject": "toJson (list .Namespace .PVC)", "deployment": "toJson .Deployment", "profile": "toJson .Profile",
		})))
		profile := ""
		if name == "pvc" {
			profile = "profile: {name: profile, namespace: $NS}, "
		}
		e.actionSet(name, "{name: go, blueprint: $ME, "+profile+"object: "+object+"}")
	}
	for name, want := range map[string]map[string]string{
		"namespace": {"subject": `[{"Name":"other","Namespace":"other"},null]`, "deployment": "null", "profile": "null"},
		"pvc":       {"subject": `[null,{"Name":"data","Namespace":"` + e.namespace + `"}]`, "deployment": "null"},
		"deployment": {
			"subject": "[null,null]", "profile": "null",
			"deployment": `{"Name":"app","Namespace":"` + e.namespace + `","Pods":["` + pod + `"],"Containers":[["main"]],"PersistentVolumeClaims":{}}`,
		},
	} {
		e.wantEnd(name, "complete sees=complete; 100%")
		got := e.configMap(name + "-sees")
		if name == "pvc" {
			var profile struct {
				Credential struct {
					Type    string
					Secret  corev1.Secret
					KeyPair any
				}
			}
			if err := json.Unmarshal([]byte(got["profile"]), &profile); err != nil {
				t.Fatal(err)
			}
			c := profile.Credential
			if c.Type != "secret" || c.KeyPair != nil || c.Secret.UID != secret.UID || c.Secret.Type != secret.Type || !cmp.Equal(c.Secret.Data, secret.Data) {
				t.Errorf("got profile %s, want its Secret", got["profile"])
			}
			const begins = `{"Location":{"type":"s3Compliant","bucket":"bkt","endpoint":"","prefix":"","region":""},` +
				`"Credential":{"Type":"secret","KeyPair":null,"Secret":{"metadata":{"name":"aws",`
			if !strings.HasPrefix(got["profile"], begins) {
				t.Errorf("got profile %s, want %s...", got["profile"], begins)
			}
			delete(got, "profile")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: what templates see (-want +got):\n%s", name, diff)
		}
	}
}

func TestActionSetArtifactsAsJSON(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	e.blueprint("artifacts", "go:\n  phases: ["+recordPhase("one", "", map[string]string{
		"json": "toJson .ArtifactsIn", "field": ".ArtifactsIn.dump.KeyValue.path", "snapshot": ".ArtifactsIn.snap.KopiaSnapshot",
	})+"]\n")
	e.actionSet("artifacts", strings.TrimSuffix(goOnNamespace, "}")+", artifacts: {dump: {keyValue: {path: /b/1}}, snap: {kopiaSnapshot: k1}, none: {}}}")
	e.wantEnd("artifacts", "complete one=complete; 100%")
	want := map[string]string{"json": `{"dump":{"keyValue":{"path":"/b/1"}},"none":{},"snap":{"kopiaSnapshot":"k1"}}`, "field": "/b/1", "snapshot": "k1"}
	for key, got := range e.configMap("artifacts-one") {
		if got != want[key] {
			t.Errorf("%s is %s, want %s", key, got, want[key])
		}
	}
}
