// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// The ActionSet controller, with the memory limit of the manifests, survives ActionSets whose templates give hundreds of large texts. Another ActionSet
// ends meanwhile.
func TestActionSetAnswerMemory(t *testing.T) {
	e := newActionsMemoryEnv(t)
	p := e.startLimitedActions()
	const text, command = "{{ $x := repeat 100000 \"x\" }}{{ range 9 }}{{ $x }}{{ end }}", "{{ repeat 250000 \"x\" }}"
	kinds := map[string]string{
		"args":      "go:\n  phases: [{func: KubeExec, name: one, args: {namespace: $NS, pod: none, container: none, command: [sh, '" + command + "']}}]\n",
		"artifacts": "go:\n  outputArtifacts: {a: {kopiaSnapshot: '" + text + "'}}\n  phases: []\n",
		"ended":     "go:\n  outputArtifacts: {a: {kopiaSnapshot: '" + text + "'}}\n  phases: [{func: WaitV2, name: one, args: {timeout: 1m, conditions: {anyOf: [{condition: 'true', objectReference: {apiVersion: v1, resource: namespaces, name: $NS}}]}}}]\n",
	}
	const each, actions = 6, 300
	for kind, blueprint := range kinds {
		e.blueprint(kind, strings.ReplaceAll(blueprint, "$NS", e.namespace))
		for i := range each {
			set := &v1alpha1.ActionSet{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(kind, "-", i)}, Spec: &v1alpha1.ActionSetSpec{}}
			for range actions {
				set.Spec.Actions = append(set.Spec.Actions, v1alpha1.ActionSpec{
					Name: "go", Blueprint: kind, Object: v1alpha1.ObjectReference{Kind: "Namespace", Name: e.namespace, Namespace: e.namespace},
				})
			}
			e.createSet(set)
		}
	}
	e.startRun("honest", "  phases: ["+createPhase("one")+"]\n")
	e.wantEnd("honest", "complete one=complete; 100%")
	p.mustRun(t)
	for kind := range kinds {
		e.patchSet(kind+"-0", `{"spec":{"cancel":true}}`)
		if err := e.client.CrV1alpha1().ActionSets(e.namespace).Delete(t.Context(), kind+"-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.awaitGone(kind + "-1")
	}
	wants := map[string]string{
		"args":      `pods "none" not found`,
		"artifacts": "the artifacts of all actions without phases take too many steps, or are too large",
		"ended":     "ArtifactsTooLarge: ",
	}
	for kind := range kinds {
		for i := range each {
			if i != 1 {
				p.mustRun(t)
				set := e.awaitSet(fmt.Sprint(kind, "-", i), ended)
				if message := set.Status.Error.Message; !strings.Contains(message, wants[kind]) && !strings.Contains(message, "Cancelled: ") {
					t.Errorf("error of ActionSet %s: got %.300q, want %q in it", set.Name, message, wants[kind])
				}
			}
		}
	}
	p.mustHaveFit(t)
}
