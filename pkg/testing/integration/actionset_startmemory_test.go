// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// The ActionSet controller, with the memory limit of the manifests, survives ActionSets that multiply what they name: a large Blueprint by many actions,
// Secrets by many names, and the large Pods of a subject by many ActionSets. Another user's ActionSet ends meanwhile.
func TestActionSetStartMemory(t *testing.T) {
	e := newActionsMemoryEnv(t)
	p := e.startLimitedActions()
	e.blueprint("small", goPhases(createPhase("one")))
	e.createConfigMap("small-one", nil) // a run that has read all that it names fails, because it creates this one
	e.blueprint("large", "go:\n  phases: [{func: KubeTask, name: one, args: {image: none, command: [sh, '"+strings.Repeat("x", 1_000_000)+"']}}]\n")
	secret := func(name string, bytes int) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"a": make([]byte, bytes)}}
		if _, err := e.kube.CoreV1().Secrets(e.namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	secret("token", 100)
	const heavy = 20
	for i := range heavy {
		secret(fmt.Sprint("heavy-", i), corev1.MaxSecretSize-1000)
	}
	// Each action names Secrets names times, with the names that the function returns.
	many := func(name, blueprint string, actions, names int, secret func(i int) string) {
		set := &v1alpha1.ActionSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: &v1alpha1.ActionSetSpec{}}
		for i := range actions {
			action := v1alpha1.ActionSpec{Name: "go", Blueprint: blueprint, Object: v1alpha1.ObjectReference{Kind: "Namespace", Name: e.namespace, Namespace: e.namespace}}
			action.Secrets = map[string]v1alpha1.ObjectReference{}
			for n := range names {
				action.Secrets[fmt.Sprint("n", n)] = v1alpha1.ObjectReference{Name: secret(i*names + n)}
			}
			set.Spec.Actions = append(set.Spec.Actions, action)
		}
		e.createSet(set)
	}
	e.createRunningPods("db", 40, strings.Repeat("x", 1<<20))
	token := func(int) string { return "token" }
	weight := func(i int) string { return fmt.Sprint("heavy-", i%heavy) }
	const rounds = 16
	for i := range rounds { // before the others: all workers read the same Pods
		e.actionSet(fmt.Sprint("pods-", i), "{name: go, blueprint: small, object: {kind: StatefulSet, name: db, namespace: $NS}}")
	}
	for i := range rounds {
		many(fmt.Sprint("copies-", i), "large", 1000, 0, token)
		many(fmt.Sprint("names-", i), "small", 90, 100, token)
		many(fmt.Sprint("weight-", i), "small", 12, 7, weight)
		many(fmt.Sprint("overweight-", i), "small", 90, 100, weight)
	}
	e.startRun("honest", "  phases: ["+createPhase("one")+"]\n")
	e.wantEnd("honest", "complete one=complete; 100%")
	p.mustRun(t)

	// Half of them are cancelled or deleted while they start.
	for i := range rounds / 4 {
		for _, kind := range []string{"copies", "names", "weight", "overweight", "pods"} {
			e.patchSet(fmt.Sprintf("%s-%d", kind, i), `{"spec":{"cancel":true}}`)
			name := fmt.Sprintf("%s-%d", kind, i+rounds/4)
			if err := e.client.CrV1alpha1().ActionSets(e.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			e.awaitGone(name)
		}
	}
	wants := map[string]string{
		"copies":     "the snapshot of the run is too large: ",
		"overweight": "the Secrets and ConfigMaps that the action and its phases name have more than 8388608 bytes together",
		"names":      `configmaps "small-one" already exists`,
		"weight":     `configmaps "small-one" already exists`,
		"pods":       `configmaps "small-one" already exists`,
	}
	for kind, want := range wants {
		for i := range rounds {
			if i/(rounds/4) == 1 {
				continue // deleted
			}
			set := e.awaitSet(fmt.Sprintf("%s-%d", kind, i), ended)
			if message := set.Status.Error.Message; !strings.Contains(message, want) && !strings.Contains(message, "Cancelled: ") {
				t.Errorf("error of ActionSet %s: got %.300q, want %q in it", set.Name, message, want)
			}
		}
		p.mustRun(t)
	}
	p.mustHaveFit(t)
}
