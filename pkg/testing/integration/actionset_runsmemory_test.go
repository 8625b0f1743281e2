// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
)

// The ActionSet controller, with the memory limit of the manifests, survives many small ActionSets that wait, each with a large snapshot and large arguments.
// Another user's ActionSet ends meanwhile, and those that wait can be cancelled and deleted.
func TestActionSetRunsMemory(t *testing.T) {
	e := newActionsMemoryEnv(t)
	p := e.startLimitedActions()
	e.createConfigMap("never", map[string]string{"ready": "no"})
	const reference = "objectReference: {apiVersion: v1, resource: configmaps, namespace: $NS, name: never}"
	waits := func(condition string) string {
		return "{func: Wait, name: long, args: {timeout: 1h, conditions: {anyOf: [{condition: '" + condition + "', " + reference + "}]}}}"
	}
	// The Blueprints are large for different reasons: a phase that does not run yet, and the arguments of the one that does, as a text and as many values.
	filler := strings.Repeat("x", 900_000)
	blueprints := map[string]string{
		"snapshot": goPhases(waits("false"), "{func: KubeTask, name: two, args: {image: none, command: [sh, '"+filler+"']}}"),
		"text":     goPhases(waits(`{{ if true }}false{{ end }}` + strings.Repeat(" ", 120_000))),
		"values": goPhases("{func: Wait, name: long, args: {timeout: 1h, conditions: {anyOf: [" +
			strings.Repeat("{condition: 'false', "+reference+"}, ", 2000) + "{condition: 'false', " + reference + "}]}}}"),
	}
	counts := map[string]int{"snapshot": 600, "text": 50, "values": 100}
	for name, blueprint := range blueprints {
		e.blueprint(name, blueprint)
		for i := range counts[name] {
			e.actionSet(fmt.Sprintf("%s-%d", name, i), strings.ReplaceAll(goOnNamespace, "$ME", name))
		}
	}
	for name, count := range counts {
		for i := range count {
			e.awaitWaiting(fmt.Sprintf("%s-%d", name, i), "phase long waits for one of conditions.anyOf since ")
		}
	}
	e.startRun("honest", "  phases: ["+createPhase("one")+"]\n")
	e.wantEnd("honest", "complete one=complete; 100%")
	p.mustRun(t)

	e.cancelAndDelete(counts, e.wantCancelled)
	p.mustHaveFit(t)
}
