// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// The ActionSet controller, with the memory limit of the manifests, survives JSON that takes fifty times its size when it is decoded: in Blueprints, in
// snapshots, in subjects, in objects that a Wait reads, and in many ActionSets that are small as JSON. Small
// ActionSets end meanwhile, and those that run can be cancelled and deleted.
func TestActionSetDenseMemory(t *testing.T) {
	e := newActionsMemoryEnv(t)
	e.startNode(map[string]program{"quick": func(_ context.Context, c *call) int { c.output("k", "v"); return 0 }})
	e.createConfigMap("never", nil)
	const rounds = 16
	dense := func(bytes int) string { return "[" + strings.Repeat(`{"":0},`, bytes/7) + "0]" }
	never := `{"func":"Wait","name":"long","args":{"timeout":"1h","conditions":{"anyOf":[{"condition":"false",` +
		`"objectReference":{"apiVersion":"v1","resource":"configmaps","namespace":"$NS","name":"never"}}]}}}`
	task := func(bytes int) string {
		return `{"func":"KubeTask","name":"dense","args":{"image":"x","command":["x"],"podOverride":{"x":` + dense(bytes) + `}}}`
	}
	for i := range rounds {
		e.rawBlueprint(fmt.Sprint("large-", i), task(1_400_000))
		e.rawBlueprint(fmt.Sprint("medium-", i), task(950_000))
		e.rawBlueprint(fmt.Sprint("snapshot-", i), never+","+task(950_000))
		e.rawBlueprint(fmt.Sprint("args-", i), task(500_000))
		e.rawBlueprint(fmt.Sprint("almost-", i), task(200_000))
		onBlueprint := strings.NewReplacer(`"resource":"configmaps"`, `"group":"cr.kanister.io","resource":"blueprints"`, `"v1"`, `"v1alpha1"`)
		e.rawBlueprint(fmt.Sprint("refused-", i), strings.ReplaceAll(onBlueprint.Replace(never), "never", fmt.Sprint("large-", i)))
		e.rawBlueprint(fmt.Sprint("read-", i), strings.ReplaceAll(onBlueprint.Replace(never), "never", fmt.Sprint("almost-", i)))
	}
	e.rawBlueprint("wait", never)
	subject := func(name string) func(*v1alpha1.ActionSet) {
		return func(set *v1alpha1.ActionSet) {
			set.Spec.Actions[0].Object = v1alpha1.ObjectReference{Group: "cr.kanister.io", APIVersion: "v1alpha1", Resource: "blueprints", Name: name, Namespace: e.namespace}
		}
	}
	p := e.startLimitedActions()
	usual := e.honestRuns("usual")
	create := func(name, blueprint string, change func(*v1alpha1.ActionSet)) {
		set := e.newSet(name, strings.ReplaceAll(goOnNamespace, "$ME", blueprint))
		if change != nil {
			change(set)
		}
		e.createSet(set)
		p.mustRun(t)
	}
	for i := range rounds {
		create(fmt.Sprint("refused-", i), fmt.Sprint("refused-", i), nil)
		create(fmt.Sprint("read-", i), fmt.Sprint("read-", i), nil)
		create(fmt.Sprint("almost-", i), "wait", subject(fmt.Sprint("almost-", i)))
		create(fmt.Sprint("subject-", i), "wait", subject(fmt.Sprint("medium-", i)))
		create(fmt.Sprint("snapshot-", i), fmt.Sprint("snapshot-", i), nil)
		create(fmt.Sprint("args-", i), fmt.Sprint("args-", i), nil)
	}
	const small = 500
	for i := range small {
		create(fmt.Sprint("small-", i), "wait", func(set *v1alpha1.ActionSet) {
			artifacts := map[string]v1alpha1.Artifact{}
			for n := range 990 {
				artifacts[fmt.Sprint("a", n)] = v1alpha1.Artifact{KeyValue: map[string]string{"": ""}}
			}
			set.Spec.Actions[0].Artifacts = artifacts
		})
	}
	e.wantUndelayed(usual)
	wants := map[string]string{"args": "podOverride", "subject": "ObjectTooLarge: "}
	for kind, want := range wants {
		for i := range rounds {
			set := e.awaitSet(fmt.Sprintf("%s-%d", kind, i), ended)
			if message := set.Status.Error.Message; !strings.Contains(message, want) {
				t.Errorf("error of ActionSet %s: got %.300q, want %q in it", set.Name, message, want)
			}
			p.mustRun(t)
		}
	}
	running := map[string]int{"refused": rounds, "read": rounds, "almost": rounds, "snapshot": rounds, "small": small}
	for kind, count := range running {
		for i := range count {
			e.awaitPhase(fmt.Sprintf("%s-%d", kind, i), "long", v1alpha1.StateRunning)
			p.mustRun(t)
		}
	}
	e.awaitUsual(usual)
	p.mustHaveFit(t)

	p = e.startLimitedActions()
	e.honestRun("after")
	e.cancelAndDelete(running, e.wantCancelled)
	p.mustHaveFit(t)
}

// rawBlueprint creates a Blueprint whose action go has these phases, as JSON.
func (e *actionsEnv) rawBlueprint(name, phases string) {
	e.Helper()
	text := fmt.Sprintf(`{"apiVersion":"cr.kanister.io/v1alpha1","kind":"Blueprint","metadata":{"name":%q},"actions":{"go":{"phases":[%s]}}}`, name, e.text(name, phases))
	err := e.client.CrV1alpha1().RESTClient().Post().Namespace(e.namespace).Resource("blueprints").SetHeader("Content-Type", "application/json").
		Body([]byte(text)).Do(e.Context()).Error()
	if err != nil {
		e.Fatal(err)
	}
}
