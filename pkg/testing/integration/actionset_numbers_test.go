// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// withNumbers returns an ActionSet with that many actions, which name that many Secrets and ConfigMaps each.
func (e *actionsEnv) withNumbers(name string, actions, secrets, configMaps int) *v1alpha1.ActionSet {
	action := v1alpha1.ActionSpec{
		Name: "go", Blueprint: "small", Object: v1alpha1.ObjectReference{Kind: "Namespace", Name: e.namespace, Namespace: e.namespace},
		Secrets: map[string]v1alpha1.ObjectReference{}, ConfigMaps: map[string]v1alpha1.ObjectReference{},
	}
	for i := range secrets {
		action.Secrets[fmt.Sprint("n", i)] = v1alpha1.ObjectReference{Name: "any"}
	}
	for i := range configMaps {
		action.ConfigMaps[fmt.Sprint("n", i)] = v1alpha1.ObjectReference{Name: "any"}
	}
	return &v1alpha1.ActionSet{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: &v1alpha1.ActionSetSpec{Actions: slices.Repeat([]v1alpha1.ActionSpec{action}, actions)},
	}
}

// createError returns the error of the creation of an ActionSet; "" if there is none.
func (e *actionsEnv) createError(set *v1alpha1.ActionSet) string {
	_, err := e.client.CrV1alpha1().ActionSets(e.namespace).Create(e.Context(), set, metav1.CreateOptions{})
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestActionSetTooManyAreNotAdmitted(t *testing.T) {
	e := newActionsEnv(t)
	for _, test := range []struct {
		name                         string
		actions, secrets, configMaps int
		want                         string
	}{
		{name: "fits", actions: 1000},
		{name: "names-fit", actions: 2, secrets: 100, configMaps: 100},
		{name: "actions", actions: 1001, want: "spec.actions: Too many: 1001: must have at most 1000 items"},
		{name: "secrets", actions: 1, secrets: 101, want: "spec.actions[0].secrets: Too many: 101: must have at most 100 items"},
		{name: "configmaps", actions: 1, configMaps: 101, want: "spec.actions[0].configMaps: Too many: 101: must have at most 100 items"},
	} {
		got := e.createError(e.withNumbers(test.name, test.actions, test.secrets, test.configMaps))
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("creating ActionSet %s: got %q, want %q in it", test.name, got, test.want)
		}
	}
	phase := v1alpha1.BlueprintPhase{Func: "KubeOps", Name: "one"}
	tooMany := phase
	tooMany.Objects = e.withNumbers("", 1, 101, 0).Spec.Actions[0].Secrets
	manyActions, manyArtifacts := map[string]v1alpha1.BlueprintAction{}, map[string]v1alpha1.Artifact{}
	for i := range 1001 {
		manyActions[fmt.Sprint(i)], manyArtifacts[fmt.Sprint(i)] = v1alpha1.BlueprintAction{}, v1alpha1.Artifact{}
	}
	for name, test := range map[string]struct {
		action v1alpha1.BlueprintAction
		want   string
	}{
		"phases":  {v1alpha1.BlueprintAction{Phases: slices.Repeat([]v1alpha1.BlueprintPhase{phase}, 1001)}, "phases: Too many: 1001: must have at most 1000 items"},
		"objects": {v1alpha1.BlueprintAction{Phases: []v1alpha1.BlueprintPhase{tooMany}}, "phases[0].objects: Too many: 101: must have at most 100 items"},
		"secrets": {v1alpha1.BlueprintAction{SecretNames: slices.Repeat([]string{"n"}, 101)}, "secretNames: Too many: 101: must have at most 100 items"},
		"configmaps": {
			v1alpha1.BlueprintAction{ConfigMapNames: slices.Repeat([]string{"n"}, 101)}, "configMapNames: Too many: 101: must have at most 100 items",
		},
		"inputs": {
			v1alpha1.BlueprintAction{InputArtifactNames: slices.Repeat([]string{"n"}, 1001)}, "inputArtifactNames: Too many: 1001: must have at most 1000 items",
		},
		"outputs": {v1alpha1.BlueprintAction{OutputArtifacts: manyArtifacts}, "outputArtifacts: Too many: 1001: must have at most 1000 items"},
	} {
		if got, want := e.blueprintError(name, map[string]v1alpha1.BlueprintAction{"go": test.action}), "actions.go."+test.want; !strings.Contains(got, want) {
			t.Errorf("creating Blueprint %s: got %q, want %q in it", name, got, want)
		}
	}
	if got, want := e.blueprintError("actions", manyActions), "actions: Too many: 1001: must have at most 1000 items"; !strings.Contains(got, want) {
		t.Errorf("creating Blueprint actions: got %q, want %q in it", got, want)
	}
}

// blueprintError returns the error of the creation of a Blueprint; "" if there is none.
func (e *actionsEnv) blueprintError(name string, actions map[string]v1alpha1.BlueprintAction) string {
	b := &v1alpha1.Blueprint{ObjectMeta: metav1.ObjectMeta{Name: name}, Actions: actions}
	if _, err := e.client.CrV1alpha1().Blueprints(e.namespace).Create(e.Context(), b, metav1.CreateOptions{}); err != nil {
		return err.Error()
	}
	return ""
}

// tooManyStored are ActionSets that only a CustomResourceDefinition without limits admits, with their errors.
func (e *actionsEnv) tooManyStored() map[*v1alpha1.ActionSet]string {
	return map[*v1alpha1.ActionSet]string{
		e.withNumbers("actions", 1001, 0, 0): "spec.actions has 1001 actions, and may have 1000: use several ActionSets: Validation Failed",
		e.withNumbers("secrets", 1, 101, 0):  "spec.actions[0].secrets has 101 references, and may have 100: put what they hold into fewer objects: Validation Failed",
	}
}

// createRunningPods creates a StatefulSet, and gives its Pods a status with this message, as there is no kubelet.
func (e *actionsEnv) createRunningPods(name string, replicas int, message string) {
	e.Helper()
	labels := map[string]string{"app": name}
	_, err := e.kube.AppsV1().StatefulSets(e.namespace).Create(e.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(replicas)), PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	for _, pod := range e.awaitPods(name, replicas) {
		status := fmt.Appendf(nil, `{"status":{"phase":"Running","message":%q}}`, message)
		if _, err := e.kube.CoreV1().Pods(e.namespace).Patch(e.Context(), pod.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
			e.Fatal(err)
		}
	}
}

// The Pods of a subject are read some at a time: a Pod may be large, and templates get little of it.
func TestActionSetPodsAreReadInPages(t *testing.T) {
	e := newActionsEnv(t)
	e.createRunningPods("db", 60, "")
	var journal faultproxy.Journal
	process := e.run(&journal)
	e.blueprint("pods", "go:\n"+kubeOpsCreate("{apiVersion: v1, kind: ConfigMap, metadata: {name: 'pods-{{ len .StatefulSet.Pods }}-{{ last .StatefulSet.Pods }}'}}"))
	e.actionSet("pods", "{name: go, blueprint: pods, object: {kind: StatefulSet, name: db, namespace: $NS}}")
	e.wantEnd("pods", "complete make=complete; 100%")
	if e.configMap("pods-60-db-9") == nil {
		t.Error("the template did not get the 60 Pods in the order of their names")
	}
	process.stop()
	var limits []string
	for _, entry := range journal.Entries() {
		if entry.Verb == "list" && entry.Resource == "pods" && entry.Query.Get("labelSelector") == "app=db" {
			limits = append(limits, entry.Query.Get("limit"))
		}
	}
	if want := []string{"16", "16", "16", "16"}; !slices.Equal(limits, want) {
		t.Errorf("limits of the lists of Pods: got %q, want %q", limits, want)
	}
}
