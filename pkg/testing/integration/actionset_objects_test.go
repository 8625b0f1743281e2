// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

func (e *actionsEnv) getSet(name string) *v1alpha1.ActionSet {
	e.Helper()
	set, err := e.client.CrV1alpha1().ActionSets(e.namespace).Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	if set.Status == nil {
		set.Status = &v1alpha1.ActionSetStatus{}
	}
	return set
}

func (e *actionsEnv) patchSet(name, patch string) {
	e.Helper()
	_, err := e.client.CrV1alpha1().ActionSets(e.namespace).Patch(e.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

func (e *actionsEnv) deleteSet(name string) {
	e.Helper()
	if err := e.client.CrV1alpha1().ActionSets(e.namespace).Delete(e.Context(), name, metav1.DeleteOptions{}); err != nil {
		e.Fatal(err)
	}
}

// awaitSet waits until the check of the ActionSet is true.
func (e *actionsEnv) awaitSet(name string, check func(*v1alpha1.ActionSet) bool) (set *v1alpha1.ActionSet) {
	e.Helper()
	e.eventually(func() string {
		if set = e.getSet(name); !check(set) {
			return fmt.Sprintf("ActionSet %s is %s", name, summary(set))
		}
		return ""
	})
	return set
}

// awaitPhase waits until the phase or deferPhase of that name is in that state.
func (e *actionsEnv) awaitPhase(name, phase string, state v1alpha1.State) *v1alpha1.ActionSet {
	e.Helper()
	return e.awaitSet(name, func(set *v1alpha1.ActionSet) bool {
		for i := range set.Status.Actions {
			for _, p := range append(slices.Clone(set.Status.Actions[i].Phases), set.Status.Actions[i].DeferPhase) {
				if p.Name == phase && p.State == state {
					return true
				}
			}
		}
		return false
	})
}

// awaitEnd waits until the run has ended, checks that the conditions agree with the state, and returns the ActionSet.
func (e *actionsEnv) awaitEnd(name string) *v1alpha1.ActionSet {
	e.Helper()
	set := e.awaitSet(name, ended)
	complete := meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionComplete)
	failed := meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionFailed)
	if complete == failed || complete != (set.Status.State == v1alpha1.StateComplete) || failed != (set.Status.State == v1alpha1.StateFailed) ||
		!meta.IsStatusConditionFalse(set.Status.Conditions, v1alpha1.ConditionProgressing) || set.Status.ObservedGeneration != set.Generation {
		e.Errorf("ActionSet %s has ended as %s, but has the conditions %+v", name, summary(set), set.Status.Conditions)
	}
	return set
}

func ended(set *v1alpha1.ActionSet) bool { return set.Status.CompletionTime != nil }

// wantEnd waits until the run has ended, and checks the summary.
func (e *actionsEnv) wantEnd(name, want string) *v1alpha1.ActionSet {
	e.Helper()
	set := e.awaitEnd(name)
	if got := summary(set); got != want {
		e.Errorf("ActionSet %s: got\n%s, want\n%s", name, got, want)
	}
	return set
}

// summary returns a status as one line.
func summary(set *v1alpha1.ActionSet) string {
	status := set.Status
	parts := []string{string(status.State)}
	for i := range status.Actions {
		for _, p := range status.Actions[i].Phases {
			parts = append(parts, fmt.Sprintf("%s=%s", p.Name, p.State))
		}
		if deferred := status.Actions[i].DeferPhase; deferred.State != "" {
			parts = append(parts, fmt.Sprintf("defer %s=%s", deferred.Name, deferred.State))
		}
	}
	text := strings.Join(parts, " ")
	if percent := status.Progress.PercentCompleted; percent != "" {
		text += "; " + percent + "%"
	}
	if running := status.Progress.RunningPhase; running != "" {
		text += "; runs " + running
	}
	if message := status.Error.Message; message != "" {
		text += "; " + message
	}
	return podNames.ReplaceAllString(text, "$1-x")
}

// podNames matches the names of Pods of phases, which end in random characters.
var podNames = regexp.MustCompile(`\b(kanister-job|prepare-data-job)-[a-z0-9]+`)

// outputs returns the output of a phase of the first action.
func outputs(t testing.TB, set *v1alpha1.ActionSet, phase string) (output map[string]any) {
	t.Helper()
	for _, p := range append(slices.Clone(set.Status.Actions[0].Phases), set.Status.Actions[0].DeferPhase) {
		if p.Name != phase || p.Output == nil {
			continue
		}
		if err := json.Unmarshal(p.Output.Raw, &output); err != nil {
			t.Fatal(err)
		}
	}
	return output
}

// configMap returns the data of the ConfigMap, or nil if it does not exist.
func (e *actionsEnv) configMap(name string) map[string]string {
	e.Helper()
	list, err := e.kube.CoreV1().ConfigMaps(e.namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		e.Fatal(err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	if list.Items[0].Data == nil {
		return map[string]string{}
	}
	return list.Items[0].Data
}

func (e *actionsEnv) createConfigMap(name string, data map[string]string) {
	e.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	if _, err := e.kube.CoreV1().ConfigMaps(e.namespace).Create(e.Context(), configMap, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// createConfigMapPhase returns a phase that creates an empty ConfigMap.
func createConfigMapPhase(phase, name string) string {
	return fmt.Sprintf("{func: KubeOps, name: %s, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}'}}",
		phase, name)
}

// podsOf returns the Pods of the ActionSet's phases in the namespace of the test.
func (e *actionsEnv) podsOf(set *v1alpha1.ActionSet) []corev1.Pod {
	e.Helper()
	list, err := e.kube.CoreV1().Pods(e.namespace).List(e.Context(), metav1.ListOptions{LabelSelector: "millwright.dev/actionset-uid=" + string(set.UID)})
	if err != nil {
		e.Fatal(err)
	}
	return list.Items
}

// wantCleanUp waits until a run has left no Pod, no snapshot and no finalizer.
func (e *actionsEnv) wantCleanUp(set *v1alpha1.ActionSet) {
	e.Helper()
	e.eventually(func() string {
		if pods := e.podsOf(set); len(pods) > 0 {
			return fmt.Sprintf("Pod %s is left", pods[0].Name)
		}
		secrets, err := e.kube.CoreV1().Secrets(e.namespace).List(e.Context(), metav1.ListOptions{LabelSelector: "millwright.dev/actionset-uid=" + string(set.UID)})
		if err != nil {
			e.Fatal(err)
		}
		if len(secrets.Items) > 0 {
			return fmt.Sprintf("Secret %s is left", secrets.Items[0].Name)
		}
		live, err := e.client.CrV1alpha1().ActionSets(e.namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + set.Name})
		if err != nil {
			e.Fatal(err)
		}
		if len(live.Items) > 0 && live.Items[0].UID == set.UID && len(live.Items[0].Finalizers) > 0 {
			return fmt.Sprintf("ActionSet %s still has the finalizers %q", set.Name, live.Items[0].Finalizers)
		}
		return ""
	})
}
