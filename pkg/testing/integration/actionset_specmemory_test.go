// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// The ActionSet controller, with the memory limit of the manifests, survives arguments that become many times as large when they are read: specs of KubeOps,
// and Pods and containers of KubeExecAll. Another user's ActionSet ends meanwhile.
func TestActionSetSpecMemory(t *testing.T) {
	e := newActionsMemoryEnv(t)
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
	var names []string
	for i := range 4000 {
		names = append(names, fmt.Sprintf("n%03x", i)) // 20 KB
	}
	product := strings.Join(names, " ")
	e.blueprint("product", goPhases("{func: KubeExecAll, name: one, args: {namespace: $NS, pods: '"+product+"', containers: '"+product+"', command: [sh]}}"))
	for i := range rounds {
		e.actionSet(fmt.Sprint("product-", i), strings.ReplaceAll(goOnNamespace, "$ME", "product"))
	}
	e.startRun("honest", "  phases: ["+createPhase("one")+"]\n")
	e.wantEnd("honest", "complete one=complete; 100%")
	want := func(set, why string) {
		t.Helper()
		p.mustRun(t)
		if message := e.awaitSet(set, ended).Status.Error.Message; !strings.Contains(message, why) {
			t.Errorf("error of ActionSet %s: got %.300q, want %q in it", set, message, why)
		}
	}
	for i := range rounds {
		for name, text := range texts {
			for operation := range operations {
				want(fmt.Sprintf("%s-%s-%d", name, operation, i), text.why)
			}
		}
		want(fmt.Sprint("product-", i), "name 16000000 containers together (4000 Pods, 4000 containers in each), and may name 1000")
	}
	p.mustHaveFit(t)
}
