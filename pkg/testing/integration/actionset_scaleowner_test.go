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
	"millwright.dev/pkg/testing/faultproxy"
)

// The HelloApp controller restores the replicas of its Deployments. ScaleWorkload therefore scales the HelloApp that owns the Deployment.
func TestActionSetScaleOwner(t *testing.T) {
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
	set := e.wantEnd("scale", "complete down=complete up=complete other=complete; 100%")
	for phase, count := range map[string]float64{"down": 2, "up": 0, "other": 2} {
		if diff := cmp.Diff(map[string]any{"originalReplicaCount": count}, outputs(t, set, phase)); diff != "" {
			t.Errorf("output of phase %s (-want +got):\n%s", phase, diff)
		}
	}
	if app, _ := e.awaitApp("hello", 1); app.Spec.Size != 1 {
		t.Errorf("got size %d, want 1", app.Spec.Size)
	}
	// The subject may be the HelloApp itself.
	e.blueprint("subject", goPhases("{func: ScaleWorkload, name: grow, args: {replicas: 3}}"))
	e.actionSet("subject", "{name: go, blueprint: subject, object: {apiVersion: v1, group: "+appsv1.GroupName+", resource: helloapps, name: hello, namespace: $NS}}")
	e.wantEnd("subject", "complete grow=complete; 100%")
	e.awaitApp("hello", 3)
}

// For a kind that the shipped role does not name, the error names the missing rule.
func TestActionSetScaleOwnerForbidden(t *testing.T) {
	e := newActionsEnv(t)
	requests[actions].expectForbidden(useless.Resource("machines"))
	e.run(nil)
	e.createMachine(newMachine("panel", 1))
	e.startRun("machine", "  phases: [{func: ScaleWorkload, name: scale, args: {namespace: $NS, name: panel, kind: machine, replicas: 2, waitForReady: false}}]\n")
	set := e.awaitEnd("machine")
	const rule = "the operator needs the verbs get and update on machines.useless.container.training/scale"
	if message := set.Status.Error.Message; !strings.Contains(message, rule) {
		t.Errorf("got error %q, want %q in it", message, rule)
	}
	e.grantForKubeOps(rbacv1.PolicyRule{APIGroups: []string{useless.GroupName}, Resources: []string{"machines/scale"}, Verbs: []string{"get", "update"}})
	e.startRun("granted", "  phases: [{func: ScaleWorkload, name: scale, args: {namespace: $NS, name: panel, kind: machine, replicas: 2, waitForReady: false}}]\n")
	e.wantEnd("granted", "complete scale=complete; 100%")
}
