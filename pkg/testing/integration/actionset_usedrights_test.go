// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/phase"
)

func TestActionSetScaleStatefulSet(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	labels := map[string]string{"app": "db"}
	_, err := e.kube.AppsV1().StatefulSets(e.namespace).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "db", Image: "db"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.blueprint("scale", `{go: {phases: [{func: ScaleWorkload, name: scale, args: {replicas: "0", waitForReady: false}}]}}`)
	e.actionSet("scale", "{name: go, blueprint: $ME, object: {kind: StatefulSet, name: db, namespace: $NS}}")
	set := e.wantEnd("scale", "complete scale=complete; 100%")
	if got := outputs(t, set, "scale")["originalReplicaCount"]; got != 2.0 {
		t.Errorf("got originalReplicaCount %v, want 2", got)
	}
	scaled, err := e.kube.AppsV1().StatefulSets(e.namespace).Get(t.Context(), "db", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *scaled.Spec.Replicas != 0 {
		t.Errorf("got %d replicas, want 0", *scaled.Spec.Replicas)
	}
}

func TestActionSetFailureEventsFolded(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	e.blueprint("fails", goPhases(
		`{func: KubeOps, name: fail, args: {operation: patch, spec: "{}", objectReference: {apiVersion: v1, resource: configmaps, name: none, namespace: $NS}}}`))
	for _, name := range []string{"first", "second"} {
		e.actionSet(name, "{name: go, blueprint: fails, object: {kind: Namespace, name: $NS, namespace: $NS}}")
		e.wantEnd(name, `failed fail=failed; 0%; configmaps "none" not found`)
	}
	e.eventually(func() string {
		events, err := e.kube.CoreV1().Events(e.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Blueprint,type=Warning"})
		switch {
		case err != nil:
			return err.Error()
		case len(events.Items) != 1 || events.Items[0].Count != 2:
			return fmt.Sprintf("got %d events, want one with the count 2", len(events.Items))
		default:
			return ""
		}
	})
}

// The Pod of an ActionSet that does not exist may come from a request of a process that has been replaced.
func TestActionSetLeftoverPodRemoved(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	stray, err := e.kube.CoreV1().Pods(e.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "stray",
			Labels:      map[string]string{phase.LabelActionSet: "00000000-0000-0000-0000-000000000000", phase.LabelPhase: "0.0"},
			Annotations: map[string]string{phase.AnnotationActionSet: e.namespace + "/gone"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "container", Image: "x"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.startRun("looks", `
  phases:
  - {func: KubeTask, name: task, args: {namespace: $NS, image: x, command: [x]}}
`)
	e.eventually(func() string {
		if _, err := e.kube.CoreV1().Pods(e.namespace).Get(t.Context(), stray.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "the Pod still exists"
		}
		return ""
	})
	pods, err := e.kube.CoreV1().Pods(e.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: phase.LabelActionSet})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || !strings.HasPrefix(pods.Items[0].Name, "kanister-job-") {
		t.Errorf("got %d Pods, want only the one of the running ActionSet", len(pods.Items))
	}
}
