// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/patience"
)

// waitPhase returns a Wait or WaitV2 phase on the ConfigMap of the scenario.
func waitPhase(function, timeout, list, condition string) string {
	return "{func: " + function + ", name: wait, args: {timeout: " + timeout + ", conditions: {" + list + ": [{condition: '" + condition +
		"', objectReference: {apiVersion: v1, resource: configmaps, name: $ME, namespace: $NS}}]}}}"
}

const notMet = ", after 1s: Failed to wait for the condition to be met: Context done while polling: context deadline exceeded"

// waitFailure returns a scenario whose phase fails when its timeout is over, for that reason.
func waitFailure(phase, reason string) scenario {
	return scenario{
		blueprint: goPhases(phase),
		events:    []string{"SA go", "SP wait", "F Failed to execute phase: " + reason},
		end:       "failed wait=failed; 0%; " + reason,
	}
}

var waitScenarios = map[string]scenario{
	"wait-timeout":   waitFailure(waitPhase("Wait", "1s", "allOf", "{ $.data.ready }"), `conditions.allOf[0] on configmaps $NS/$ME does not hold: it gives "no"`+notMet),
	"waitv2-timeout": waitFailure(waitPhase("WaitV2", "1s", "anyOf", "{{ .data.ready }}"), `conditions.anyOf[0] on configmaps $NS/$ME does not hold: it gives "no"`+notMet),
	"wait-object-missing": waitFailure(strings.ReplaceAll(waitPhase("Wait", "1s", "allOf", "{ $.data.ready }"), "name: $ME", "name: none"),
		`conditions.allOf[0] on configmaps $NS/none: configmaps "none" not found`+notMet),
}

func TestActionSetWait(t *testing.T) {
	e := newActionsEnv(t)
	for _, name := range append(slices.Collect(maps.Keys(waitScenarios)), "wait", "waitv2") {
		e.createConfigMap(name, map[string]string{"ready": "no"})
	}
	e.run(nil)
	e.startRun("wait", "  phases: ["+waitPhase("Wait", "5m", "anyOf", `{{ if eq "{ $.data.ready }" "yes" }}true{{ end }}`)+"]\n")
	e.startRun("waitv2", "  phases: ["+waitPhase("WaitV2", "5m", "allOf", `{{ if eq .data.ready "yes" }}true{{ end }}`)+"]\n")
	// A condition that can never hold fails immediately.
	e.startRun("syntax", "  phases: ["+waitPhase("WaitV2", "5m", "allOf", "{{ .data.ready")+"]\n")
	e.playScenarios(waitScenarios)
	for _, name := range []string{"wait", "waitv2"} {
		e.awaitPhase(name, "wait", v1alpha1.StateRunning)
		e.release(name)
		e.wantEnd(name, "complete wait=complete; 100%")
		e.wantEvents(name, "SA go", "SP wait", "EP wait", "UC")
	}
	set := e.awaitEnd("syntax")
	if message := set.Status.Error.Message; set.Status.State != v1alpha1.StateFailed || !strings.Contains(message, "conditions.allOf[0]") {
		t.Errorf("condition that is not a template: got %s, want the run failed", summary(set))
	}
}

func TestActionSetScaleWorkload(t *testing.T) {
	e := newActionsEnv(t)
	e.createDeployment("scale", false)
	e.kubectl("scale", "deployment", "scale", "--replicas=2")
	e.kubectl("rollout", "status", "deployment", "scale")
	e.run(nil)
	const note = `{func: KubeOps, name: note, args: {operation: create, namespace: $NS,
  spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: $ME-note}, data: {pods: "{{ len .Deployment.Pods }}"}}'}}`
	e.blueprint("scale", goPhases(
		"{func: ScaleWorkload, name: down, args: {replicas: 0}}", note,
		"{func: ScaleWorkload, name: up, args: {namespace: $NS, kind: deployment, name: scale, replicas: '{{ .Phases.down.Output.originalReplicaCount }}'}}",
		"{func: ScaleWorkload, name: away, args: {replicas: 1, waitForReady: false}}",
	))
	e.actionSet("scale", "{name: go, blueprint: scale, object: {kind: Deployment, name: scale, namespace: $NS}}")
	set := e.wantEnd("scale", "complete down=complete note=complete up=complete away=complete; 100%")
	e.wantEvents("scale", "SA go", "SP down", "EP down", "SP note", "EP note", "SP up", "EP up", "SP away", "EP away", "UC")
	for phase, count := range map[string]float64{"down": 2, "up": 0, "away": 2} {
		if diff := cmp.Diff(map[string]any{"originalReplicaCount": count}, outputs(t, set, phase)); diff != "" {
			t.Errorf("output of phase %s (-want +got):\n%s", phase, diff)
		}
	}
	// Templates see the subject as it was when the run started.
	if diff := cmp.Diff(map[string]string{"pods": "2"}, e.configMap("scale-note")); diff != "" {
		t.Errorf("what templates see (-want +got):\n%s", diff)
	}
	deployment, err := e.kube.AppsV1().Deployments(e.namespace).Get(t.Context(), "scale", metav1.GetOptions{})
	if err != nil || *deployment.Spec.Replicas != 1 {
		t.Errorf("replicas of the Deployment: got %d (%v), want 1", *deployment.Spec.Replicas, err)
	}
}

func TestActionSetKubeOps(t *testing.T) {
	e := newActionsEnv(t)
	e.grantForKubeOps(
		rbacv1.PolicyRule{APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"priorityclasses"}, Verbs: []string{"create", "delete", "get", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"profiles"}, Verbs: []string{"create", "delete", "get", "patch"}},
	)
	e.run(nil)
	for name, kind := range map[string]struct{ manifest, patch, reference, changed string }{
		"cluster-scoped": {
			manifest:  "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: $NS}, value: 7}",
			patch:     "{description: patched}",
			reference: "{group: scheduling.k8s.io, apiVersion: v1, resource: priorityclasses, name: $NS}",
			changed:   `{{ eq .description "patched" }}`,
		},
		"custom": {
			manifest:  "{apiVersion: cr.kanister.io/v1alpha1, kind: Profile, metadata: {name: made}, location: {type: s3Compliant}}",
			patch:     "{location: {bucket: patched}}",
			reference: "{group: cr.kanister.io, apiVersion: v1alpha1, resource: profiles, name: made, namespace: $NS}",
			changed:   `{{ and (eq .location.bucket "patched") (eq .location.type "s3Compliant") }}`,
		},
	} {
		e.blueprint(name, goPhases(
			"{func: KubeOps, name: create, args: {operation: create, namespace: $NS, spec: '"+kind.manifest+"'}}",
			"{func: KubeOps, name: patch, args: {operation: patch, objectReference: "+kind.reference+", spec: '"+kind.patch+"'}}",
			"{func: WaitV2, name: changed, args: {timeout: 1s, conditions: {allOf: [{condition: '"+kind.changed+"', objectReference: "+kind.reference+"}]}}}",
			"{func: KubeOps, name: delete, args: {operation: delete, objectReference: "+kind.reference+"}}",
		))
		e.actionSet(name)
	}
	for _, name := range []string{"cluster-scoped", "custom"} {
		e.wantEnd(name, "complete create=complete patch=complete changed=complete delete=complete; 100%")
	}
	if _, err := e.kube.SchedulingV1().PriorityClasses().Get(t.Context(), e.namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get of a deleted object: got %v, want not found", err)
	}
	if _, err := e.client.CrV1alpha1().Profiles(e.namespace).Get(t.Context(), "made", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get of a deleted object: got %v, want not found", err)
	}
}

func TestActionSetConcurrentActions(t *testing.T) {
	e := newActionsEnv(t)
	slow, late, wait := newGate(), newGate(), newGate()
	e.startNode(map[string]program{"slow": slow.program, "late": late.program, "wait": wait.program})
	e.run(nil)

	e.blueprint("both", "a:\n  phases: ["+taskPhase("slow", "slow")+"]\n  deferPhase: "+taskPhase("late", "late")+"\nb:\n  phases: ["+createPhase("quick")+"]\n")
	e.actionSet("both", "{name: a, blueprint: $ME"+onNamespace, "{name: b, blueprint: $ME"+onNamespace)
	slow.await(e.env)
	set := e.awaitPhase("both", "quick", v1alpha1.StateComplete)
	if got, want := summary(set), "running slow=running defer late=pending quick=complete; 50%; runs slow"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	close(slow.open)
	late.await(e.env)
	set = e.awaitPhase("both", "late", v1alpha1.StateRunning)
	if got, want := summary(set), "running slow=complete defer late=running quick=complete; 100%; runs late"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	close(late.open)
	e.wantEnd("both", "complete slow=complete defer late=complete quick=complete; 100%")

	// One action fails immediately, and the other runs to its end. The status shows the phases of both while both run.
	e.blueprint("two", "bad:\n  phases: ["+failPhase("bad1", "no-such-ns")+", "+createPhase("bad2")+"]\ngood:\n  phases: ["+taskPhase("wait", "wait")+", "+createPhase("good2")+"]\n")
	e.actionSet("two", "{name: bad, blueprint: $ME"+onNamespace, "{name: good, blueprint: $ME"+onNamespace)
	wait.await(e.env)
	set = e.awaitPhase("two", "bad1", v1alpha1.StateFailed)
	if got, want := summary(set), `failed bad1=failed bad2=pending wait=running good2=pending; 0%; runs wait; namespaces "no-such-ns" not found`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if out := e.cluster.KubectlFails(t, "--namespace", e.namespace, "wait", "--for=condition=Failed", "--timeout=1s", "actionset/two"); !strings.Contains(out, "timed out") {
		t.Errorf("kubectl wait: got %s, want it to time out", out)
	}
	close(wait.open)
	e.kubectl("wait", "--for=condition=Failed", patience.Timeout, "actionset/two")
	e.wantEnd("two", `failed bad1=failed bad2=pending wait=complete good2=complete; 50%; namespaces "no-such-ns" not found`)
	e.kubectl("wait", "--for=condition=Complete", patience.Timeout, "actionset/both")
}
