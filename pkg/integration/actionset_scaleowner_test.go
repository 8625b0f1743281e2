// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	appsv1 "millwright.dev/pkg/apis/apps/v1"
	useless "millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/faultproxy"
)

// The controller of HelloApps restores the replicas of its Deployments: to scale one is to scale its HelloApp.
func TestADeploymentOfAHelloAppIsScaledThroughTheHelloApp(t *testing.T) {
	e := newActionsEnv(t)
	runHelloApps(e.env, &faultproxy.Journal{})
	e.run(nil)
	e.createApp(helloApp("hello", 2))
	e.awaitApp("hello", 2)
	e.blueprint("scale", goPhases(
		"{func: ScaleWorkload, name: down, args: {replicas: 0}}",
		"{func: ScaleWorkload, name: up, args: {replicas: '{{ .Phases.down.Output.originalReplicaCount }}'}}",
		"{func: ScaleWorkload, name: other, args: {namespace: $NS, name: hello, kind: HelloApp, replicas: 1}}",
	))
	e.actionSet("scale", "{name: go, blueprint: scale, object: {kind: Deployment, name: hello, namespace: $NS}}")
	set := e.ends("scale", "complete down=complete up=complete other=complete; 100%")
	for phase, count := range map[string]float64{"down": 2, "up": 0, "other": 2} {
		if diff := cmp.Diff(map[string]any{"originalReplicaCount": count}, outputs(t, set, phase)); diff != "" {
			t.Errorf("the output of %s (-want +got):\n%s", phase, diff)
		}
	}
	if app, _ := e.awaitApp("hello", 1); app.Spec.Size != 1 {
		t.Errorf("the HelloApp has the size %d", app.Spec.Size)
	}
	// The subject may be the HelloApp itself.
	e.blueprint("subject", goPhases("{func: ScaleWorkload, name: grow, args: {replicas: 3}}"))
	e.actionSet("subject", "{name: go, blueprint: subject, object: {apiVersion: v1, group: "+appsv1.GroupName+", resource: helloapps, name: hello, namespace: $NS}}")
	e.ends("subject", "complete grow=complete; 100%")
	e.awaitApp("hello", 3)
}

// Of a kind that the shipped role does not name, the operator says which rule is missing.
func TestAScaleThatTheOperatorMayNotWriteNamesTheRule(t *testing.T) {
	e := newActionsEnv(t)
	requests[actions].expectForbidden(useless.Resource("machines"))
	e.run(nil)
	e.createMachine(newMachine("panel", 1))
	e.goes("machine", "  phases: [{func: ScaleWorkload, name: scale, args: {namespace: $NS, name: panel, kind: machine, replicas: 2, waitForReady: false}}]\n")
	set := e.awaitEnd("machine")
	const rule = "the operator needs the verbs get and update on machines.useless.container.training/scale"
	if message := set.Status.Error.Message; !strings.Contains(message, rule) {
		t.Errorf("its error is %q", message)
	}
	e.grantForKubeOps(rbacv1.PolicyRule{APIGroups: []string{useless.GroupName}, Resources: []string{"machines/scale"}, Verbs: []string{"get", "update"}})
	e.goes("granted", "  phases: [{func: ScaleWorkload, name: scale, args: {namespace: $NS, name: panel, kind: machine, replicas: 2, waitForReady: false}}]\n")
	e.ends("granted", "complete scale=complete; 100%")
}
