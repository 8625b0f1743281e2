// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
)

// The ActionSet controller, with the memory limit of the manifests, survives conditions of Wait that read a large object under many names, and many large
// objects. Another user's ActionSet ends meanwhile, and those that wait can be cancelled and deleted, also by a process that continues them.
func TestActionSetWaitMemory(t *testing.T) {
	e := newActionsMemoryEnv(t)
	p := e.startLimitedActions()
	const objects = 40
	for i := range objects {
		e.createConfigMap(fmt.Sprint("large-", i), map[string]string{"text": strings.Repeat("x", 1<<20-1000)})
	}
	e.blueprint("large", "go:\n  phases: [{func: KubeTask, name: one, args: {image: none, command: [sh, '"+strings.Repeat("x", 1_300_000)+"']}}]\n")
	wait := func(name string, conditions []string) {
		e.blueprint(name, "go:\n  phases: [{func: Wait, name: long, args: {timeout: 1h, conditions: {anyOf: ["+strings.Join(conditions, ", ")+"]}}}]\n"+
			"  deferPhase: {func: Wait, name: deferred, args: {timeout: 1h, conditions: {allOf: [{condition: 'true', objectReference: {apiVersion: v1, resource: configmaps, namespace: $NS, name: large-0}}]}}}\n")
	}
	var kinds, many []string
	for i := range 600 {
		kinds = append(kinds, fmt.Sprintf("{condition: 'false', objectReference: {kind: K%d, group: cr.kanister.io, apiVersion: v1alpha1, resource: blueprints, namespace: $NS, name: large}}", i))
		many = append(many, fmt.Sprintf("{condition: 'false', objectReference: {kind: K%d, apiVersion: v1, resource: configmaps, namespace: $NS, name: large-%d}}", i, i%objects))
	}
	wait("kinds", kinds)
	wait("many", many)
	const rounds = 16
	for i := range rounds {
		for _, blueprint := range []string{"kinds", "many"} {
			e.actionSet(fmt.Sprintf("%s-%d", blueprint, i), "{name: go, blueprint: "+blueprint+", object: {kind: Namespace, name: $NS, namespace: $NS}}")
		}
	}
	for i := range rounds {
		e.awaitWaiting(fmt.Sprint("kinds-", i), "phase long waits for one of conditions.anyOf since ")
		e.awaitWaiting(fmt.Sprint("many-", i), "phase long waits for conditions.anyOf[15] on configmaps "+e.namespace+"/large-15, which cannot be evaluated since ")
	}
	e.startRun("honest", "  phases: ["+createPhase("one")+"]\n")
	e.wantEnd("honest", "complete one=complete; 100%")
	p.mustRun(t)

	_ = p.Process.Kill()
	<-p.ended
	p = e.startLimitedActions()
	e.cancelAndDelete(map[string]int{"kinds": rounds, "many": rounds}, e.wantCancelled)
	p.mustHaveFit(t)
}
