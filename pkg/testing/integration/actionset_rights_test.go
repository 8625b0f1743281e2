// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/testcluster"
)

var (
	toFinalizers    = right{"update", v1alpha1.GroupName, "actionsets/finalizers"}
	toCreateStreams = right{"create", "", "pods/exec"}
)

// newRestrictedActionsEnv returns an environment whose account has these rights in its namespace, and no others.
func newRestrictedActionsEnv(t *testing.T, rules []rbacv1.PolicyRule) *actionsEnv {
	t.Helper()
	t.Parallel()
	e := &actionsEnv{env: newEnv(t, testcluster.Shared(t))}
	e.account = e.accountWith(rules)
	return e
}

// shippedActionsRules returns the rules that the manifests bind in the operator's namespace.
func shippedActionsRules(t *testing.T) (rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, role := range readRights(t, actions).clusterRoles {
		rules = append(rules, role.Rules...)
	}
	return rules
}

// The snapshot is a Secret whose owner reference has blockOwnerDeletion. To set it, the operator needs the right to the finalizers of
// the ActionSet.
func TestActionSetNoRightToFinalizers(t *testing.T) {
	e := newRestrictedActionsEnv(t, without(shippedActionsRules(t), toFinalizers))
	e.run(nil)
	e.startRun("waits", `
  phases:
  - func: WaitV2
    name: wait
    args: {timeout: 1s, conditions: {allOf: [{condition: "true", objectReference: {apiVersion: v1, resource: namespaces, name: $NS}}]}}
`)
	e.eventually(func() string {
		set := e.getSet("waits")
		if set.Status == nil {
			return "the ActionSet has no status"
		}
		if set.Status.StartTime != nil {
			t.Fatalf("the run has started: %s", summary(set))
		}
		progressing := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionProgressing)
		if progressing == nil || progressing.Reason != v1alpha1.ReasonLaunching || !strings.Contains(progressing.Message, "you can't set finalizers on") {
			return fmt.Sprintf("condition Progressing: got %+v, want the missing right", progressing)
		}
		return ""
	})

	e.grant(shippedActionsRules(t))
	there := toFinalizers.attributes()
	there.Namespace = e.namespace
	e.cluster.AwaitRight(e, e.account, there)
	e.kubectl("annotate", "actionset", "waits", "note=granted") // leads to a sync before the backoff ends
	e.wantEnd("waits", "complete wait=complete; 100%")
}

func TestActionSetNoRightToExec(t *testing.T) {
	e := newRestrictedActionsEnv(t, without(shippedActionsRules(t), toCreateStreams))
	e.run(nil)
	const command = `
  phases:
  - {func: KubeExec, name: command, args: {namespace: $NS, pod: gone, command: [true]}}
`
	e.startRun("refused", command)
	if message := e.awaitEnd("refused").Status.Error.Message; !strings.Contains(message, `cannot create resource "pods/exec"`) {
		t.Errorf("got error %q, want it to name the missing right", message)
	}

	e.grant(shippedActionsRules(t))
	there := toCreateStreams.attributes()
	there.Namespace = e.namespace
	e.cluster.AwaitRight(e, e.account, there)
	e.startRun("goes", command)
	e.wantEnd("goes", `failed command=failed; 0%; Failed to exec command in pod: pods "gone" not found`)
}

// The guide asks users to bind a ClusterRole in the namespace of the application.
func TestActionSetNoRightsInNamespace(t *testing.T) {
	e := newRestrictedActionsEnv(t, shippedActionsRules(t))
	e.run(nil)
	elsewhere := e.cluster.Namespace(t)
	e.blueprint("waits", `{go: {phases: [{func: WaitV2, name: wait, args: {timeout: 1s, conditions: {}}}]}}`)
	e.actionSet("waits", `{name: go, blueprint: waits, object: {kind: StatefulSet, name: db, namespace: `+elsewhere+`}}`)
	set := e.awaitEnd("waits")
	if message := set.Status.Error.Message; !strings.Contains(message, `cannot get resource "statefulsets"`) || !strings.Contains(message, elsewhere) {
		t.Errorf("got error %q, want it to name the missing right", message)
	}

	e.startRun("pod", "  phases: ["+strings.ReplaceAll(taskPhase("one", "none"), "$NS", elsewhere)+"]\n")
	set = e.awaitEnd("pod")
	if message := set.Status.Error.Message; !strings.Contains(message, `cannot create resource "pods"`) || !strings.Contains(message, elsewhere) {
		t.Errorf("got error %q, want it to name the missing right", message)
	}
	e.wantCleanUp(set) // there is no Pod, although that cannot be read
}
