// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// The ActionSet controller, with the memory limit of the manifests, survives specs of KubeOps that become many times as large when they are read. Another
// user's ActionSet ends meanwhile.
func TestActionSetSpecMemory(t *testing.T) {
	onlyAsMemoryTest(t)
	e := newActionsEnv(t)
	p := e.startLimitedActions()
	e.createConfigMap("patched", nil)
	const configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: none}"
	texts := map[string]struct{ spec, why string }{
		"aliases": {configMap + ", a: &a " + strings.Repeat("x", 100_000) + ", b: [" + strings.Repeat("*a,", 10_000) + "1]}", "with all aliases (*) written out"},
		"values":  {configMap + ", a: [" + strings.Repeat("{},", 300_000) + "1]}", "takes more than 8388608 bytes of memory when it is read"},
		"numbers": {configMap + ", a: [" + strings.Repeat("1,", 450_000) + "1]}", "takes more than 8388608 bytes of memory when it is read"},
	}
	const rounds = 16
	operations := map[string]string{"create": "namespace: $NS", "patch": "objectReference: {apiVersion: v1, resource: configmaps, namespace: $NS, name: patched}"}
	for name, text := range texts {
		for operation, where := range operations {
			e.blueprint(name+"-"+operation, goPhases("{func: KubeOps, name: one, args: {operation: "+operation+", "+where+", spec: "+strconv.Quote(text.spec)+"}}"))
			for i := range rounds {
				e.actionSet(fmt.Sprintf("%s-%s-%d", name, operation, i), strings.ReplaceAll(goOnNamespace, "$ME", name+"-"+operation))
			}
		}
	}
	e.startRun("honest", "  phases: ["+createPhase("one")+"]\n")
	e.wantEnd("honest", "complete one=complete; 100%")
	for name, text := range texts {
		for i := range rounds {
			for operation := range operations {
				set := e.awaitSet(fmt.Sprintf("%s-%s-%d", name, operation, i), ended)
				if message := set.Status.Error.Message; !strings.Contains(message, text.why) {
					t.Errorf("error of ActionSet %s: got %.300q, want %q in it", set.Name, message, text.why)
				}
			}
		}
		p.mustRun(t)
	}
	p.mustHaveFit(t)
}
