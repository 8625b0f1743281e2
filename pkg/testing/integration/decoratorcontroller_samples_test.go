// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/samplehook"
)

// sampleEnv is an environment with an engine for all namespaces, with the rights that the sample grants. Its objects are selected by annotations and kinds
// that no other test uses.
func sampleEnv(t *testing.T, file string) decoratorEnv {
	t.Helper()
	t.Parallel()
	e := decoratorEnv{newEngineEnv(t)}
	e.run(&faultproxy.Journal{})
	e.deploySample(file)
	return e
}

func TestDecoratorSampleServicePerPod(t *testing.T) {
	e := sampleEnv(t, "decoratorcontroller/service-per-pod.yaml")
	for _, name := range []string{"service-per-pod", "pod-name-label"} {
		e.awaitDecoratorOf(name, "Serving")
	}
	statefulSet := samplehook.Objects(t, "decoratorcontroller/shards.yaml")[0]
	const kind = "StatefulSet.apps/v1"
	target, err := e.at(kind).Create(t.Context(), statefulSet, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	selects := func(pod string) func(*unstructured.Unstructured) string {
		return func(o *unstructured.Unstructured) string {
			spec := typed[corev1.Service](t, o).Spec
			if spec.Selector["pod-name"] != pod || len(spec.Ports) != 1 || spec.Ports[0].Port != 80 || spec.Ports[0].TargetPort.IntVal != 8080 {
				return fmt.Sprintf("spec of the Service: got %+v, want port 80 of the Pod %s", spec, pod)
			}
			return ""
		}
	}
	var before *unstructured.Unstructured
	for _, pod := range []string{"shards-0", "shards-1"} {
		before = e.awaitChild("Service", pod, attachedTo(target, "service-per-pod"), selects(pod))
		e.awaitChild("Pod", pod, has(pod, "metadata", "labels", "pod-name"))
	}
	// The Service has the same address when the Pod is replaced, and selects it.
	uid := e.look("Pod", "shards-1").GetUID()
	e.remove("Pod", "shards-1")
	e.awaitChild("Pod", "shards-1", otherThan(uid), has("shards-1", "metadata", "labels", "pod-name"))
	if now := e.look("Service", "shards-1"); now == nil || now.GetUID() != before.GetUID() {
		t.Error("the Service was created again with its Pod")
	}
	e.change(kind, "shards", "{spec: {replicas: 1}}")
	e.awaitGone("Service", "shards-1")
	e.change(kind, "shards", "{metadata: {annotations: {service-per-pod.example.com/ports: 80-8080}}}")
	e.awaitEventOn(target, "SyncError", "annotation service-per-pod.example.com/ports: '80-8080' is not PORT:TARGETPORT, such as 80:8080")
	e.change(kind, "shards", "{metadata: {annotations: {service-per-pod.example.com/ports: null}}}")
	e.awaitGone("Service", "shards-0")
	e.awaitChild(kind, "shards", finalizers())
	if pod := e.look("Pod", "shards-0"); pod == nil || pod.GetLabels()["pod-name"] != "shards-0" || len(pod.GetFinalizers()) > 0 {
		t.Errorf("got Pod %v, want it with its label and without a finalizer", pod)
	}
}

func TestDecoratorSampleSecretMirror(t *testing.T) {
	e := sampleEnv(t, "decoratorcontroller/secretmirror.yaml")
	e.awaitDecoratorOf("secretmirror", "Serving")
	source := e.cluster.Namespace(t)
	secrets := e.kube.CoreV1().Secrets(source)
	put := func(value string) {
		t.Helper()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "wildcard"}, StringData: map[string]string{"key": value}}
		_, err := secrets.Get(t.Context(), "wildcard", metav1.GetOptions{})
		if err == nil {
			_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
		} else {
			_, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	contains := func(value string) func(*unstructured.Unstructured) string {
		return func(o *unstructured.Unstructured) string {
			if got := string(typed[corev1.Secret](t, o).Data["key"]); got != value {
				return fmt.Sprintf("value in the copy: got %q, want %q", got, value)
			}
			return ""
		}
	}
	annotate := func(value string) {
		t.Helper()
		patch := []byte(`{"metadata": {"annotations": {"secretmirror.example.com/from": ` + value + `}}}`)
		if _, err := e.kube.CoreV1().Namespaces().Patch(t.Context(), e.namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	annotate(`"` + source + `/wildcard"`) // before there is a Secret
	e.awaitChild("Namespace", e.namespace, finalizers("metacontroller.io/decoratorcontroller-secretmirror"))
	put("first")
	e.awaitChild("Secret", "wildcard", contains("first"), attachedTo(e.look("Namespace", e.namespace), "secretmirror"))
	put("second")
	e.awaitChild("Secret", "wildcard", contains("second"))
	e.remove("Secret", "wildcard")
	e.awaitChild("Secret", "wildcard", contains("second"))
	e.change("Secret", "wildcard", "{data: {key: dGhlaXJz}}")
	e.awaitChild("Secret", "wildcard", contains("second"))
	if err := secrets.Delete(t.Context(), "wildcard", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitGone("Secret", "wildcard")
	put("third")
	e.awaitChild("Secret", "wildcard", contains("third"))
	annotate("null")
	e.awaitGone("Secret", "wildcard")
	e.awaitChild("Namespace", e.namespace, finalizers())
	annotate(`"wildcard"`)
	e.awaitEventOn(e.look("Namespace", e.namespace), "SyncError", "'wildcard' is not NAMESPACE/NAME")
	annotate("null")
	e.awaitChild("Namespace", e.namespace, finalizers())
}

func TestCompositeSamplePropagation(t *testing.T) {
	e := sampleEnv(t, "compositecontroller/configmappropagation.yaml")
	e.awaitReasonOf("configmappropagation-controller", "Serving")
	namespaces := []string{e.cluster.Namespace(t), e.cluster.Namespace(t)}
	label := func(namespace, value string) {
		t.Helper()
		e.change("Namespace", namespace, "{metadata: {labels: {settings: "+value+"}}}")
	}
	copied := func(namespace string) map[string]string {
		o, err := e.kube.CoreV1().ConfigMaps(namespace).Get(t.Context(), "settings", metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return o.Data
	}
	await := func(namespace string, want map[string]string) {
		t.Helper()
		e.eventually(func() string {
			if got := copied(namespace); fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Sprintf("copy in %s: got %v, want %v", namespace, got, want)
			}
			return ""
		})
	}
	const kind = "ConfigMapPropagation.example.com/v1"
	e.put("{apiVersion: example.com/v1, kind: ConfigMapPropagation, metadata: {name: settings}, "+
		"spec: {source: {namespace: %s, name: settings}, namespaceSelector: {matchLabels: {settings: %s}}}}", e.namespace, e.namespace)
	e.cleanUp(kind, "settings")
	e.awaitChild(kind, "settings", has("ConfigMap "+e.namespace+"/settings does not exist", "status", "message"))
	e.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: blue}}")
	e.awaitChild(kind, "settings", has(0, "status", "namespaces"), has(nil, "status", "message"))
	for _, namespace := range namespaces {
		label(namespace, e.namespace)
		await(namespace, map[string]string{"color": "blue"})
	}
	e.awaitChild(kind, "settings", has(2, "status", "namespaces"), has(2, "status", "copies"))
	e.change("ConfigMap", "settings", "{data: {color: green}}")
	for _, namespace := range namespaces {
		await(namespace, map[string]string{"color": "green"})
	}
	label(namespaces[0], "null")
	await(namespaces[0], nil)
	e.awaitChild(kind, "settings", has(1, "status", "namespaces"), has(1, "status", "copies"))
	// A copy that another client edits is repaired.
	if err := e.kube.CoreV1().ConfigMaps(namespaces[1]).Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(namespaces[1], map[string]string{"color": "green"})
	e.remove(kind, "settings")
	await(namespaces[1], nil)
	if e.look("ConfigMap", "settings") == nil {
		t.Error("the source was deleted with its copies")
	}
}
