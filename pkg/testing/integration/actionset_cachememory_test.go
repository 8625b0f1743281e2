// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// The ActionSet controller, with the memory limit of the manifests, survives many large objects of its caches: ActionSets, also rejected
// ones and such with many small values or finalizers, Blueprints, and Pods. Another user's ActionSet ends meanwhile, and those that run can be cancelled
// and deleted.
func TestActionSetCacheMemory(t *testing.T) {
	e := newActionsMemoryEnv(t)
	e.startNode(map[string]program{
		"hold": func(ctx context.Context, c *call) int {
			_, _ = io.WriteString(c.stdout, "begun\n")
			<-ctx.Done()
			return 143
		},
		"quick": func(_ context.Context, c *call) int { c.output("k", "v"); return 0 },
	})
	e.startPod("one", "main")
	p := e.startLimitedActions()
	e.createConfigMap("never", map[string]string{"ready": "no"})
	many := map[string]string{}
	for i := range 20_000 {
		many[fmt.Sprintf("k%05d", i)] = "v"
	}
	filler := strings.Repeat("x", 900_000)
	var finalizers []string
	for i := range 30_000 {
		finalizers = append(finalizers, fmt.Sprintf("example.com/a-finalizer-%05d", i))
	}
	wait := "{func: Wait, name: long, args: {timeout: 1h, conditions: {anyOf: [{condition: 'false', " +
		"objectReference: {apiVersion: v1, resource: configmaps, namespace: $NS, name: never}}]}}}"
	e.blueprint("wait", goPhases(wait))
	// A Blueprint with many small values takes much more memory than its text. Each ActionSet names several, and nothing of that in them.
	var several []string
	for i := range 10 {
		name := fmt.Sprint("values-", i)
		e.blueprint(name, goPhases(wait)+unusedActions())
		several = append(several, strings.ReplaceAll(goOnNamespace, "$ME", name))
	}
	e.blueprint("task", goPhases("{func: KubeTask, name: long, args: {namespace: $NS, image: hold, command: [go, '"+filler+"']}}"))
	e.blueprint("exec", goPhases("{func: KubeExec, name: long, args: {namespace: $NS, pod: one, command: [hold, '"+filler[:250_000]+"']}}"))
	for i := range 500 {
		e.blueprint(fmt.Sprint("unused-", i), goPhases("{func: KubeTask, name: long, args: {image: none, command: [go, '"+filler+"']}}"))
	}
	of := func(blueprint string) []string { return []string{strings.ReplaceAll(goOnNamespace, "$ME", blueprint)} }
	runs := map[string]struct {
		count   int
		actions []string
		change  func(*v1alpha1.ActionSet)
	}{
		"flat":     {60, of("wait"), func(set *v1alpha1.ActionSet) { set.Spec.Actions[0].Options = map[string]string{"filler": filler} }},
		"options":  {10, of("wait"), func(set *v1alpha1.ActionSet) { set.Spec.Actions[0].Options = many }},
		"labels":   {10, of("wait"), func(set *v1alpha1.ActionSet) { set.Labels = many }},
		"rejected": {10, of("none"), func(set *v1alpha1.ActionSet) { set.Spec.Actions[0].Options = many }},
		"pinned":   {300, of("none"), func(set *v1alpha1.ActionSet) { set.Finalizers = finalizers }},
		"task":     {40, of("task"), func(*v1alpha1.ActionSet) {}},
		"values":   {20, several, func(*v1alpha1.ActionSet) {}},
		"exec":     {60, of("exec"), func(*v1alpha1.ActionSet) {}},
	}
	running := map[string]int{}
	for name, run := range runs {
		for i := range run.count {
			set := e.newSet(fmt.Sprintf("%s-%d", name, i), run.actions...)
			run.change(set)
			e.createSet(set)
		}
		if name != "rejected" && name != "pinned" {
			running[name] = run.count
		}
	}
	for name, count := range running {
		for i := range count {
			e.awaitWaiting(fmt.Sprintf("%s-%d", name, i), "phase long")
			p.mustRun(t)
		}
	}
	for _, name := range []string{"rejected", "pinned"} {
		for i := range runs[name].count {
			e.awaitEnd(fmt.Sprintf("%s-%d", name, i))
		}
	}
	e.startRun("honest", "  phases: ["+taskPhase("one", "quick")+"]\n")
	e.wantEnd("honest", "complete one=complete; 100%")
	p.mustHaveFit(t)

	// The next process reads all of them when it starts. The commands are lost.
	p = e.startLimitedActions()
	for i := range running["exec"] {
		e.awaitEnd(fmt.Sprint("exec-", i))
	}
	delete(running, "exec")
	e.cancelAndDelete(running, e.wantCancelled)
	p.mustHaveFit(t)
}

// unusedActions returns actions of a Blueprint with 200,000 small values.
func unusedActions() string {
	names := "[" + strings.Repeat("'', ", 99) + "'']"
	var actions strings.Builder
	for i := range 999 {
		fmt.Fprintf(&actions, "unused-%d: {secretNames: %s, configMapNames: %s}\n", i, names, names)
	}
	return actions.String()
}
