// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

var invalidScenarios = map[string]scenario{
	"unknown-function": {
		blueprint: goPhases(createPhase("first"), "{func: NoSuchFunc, name: second, args: {}}"),
		events:    []string{"SA go", "F Failed to launch Action unknown-function: Requested function {NoSuchFunc} has not been registered"},
		end:       "failed first=pending second=failed; Requested function {NoSuchFunc} has not been registered",
	},
	"missing-arg": {
		blueprint: goPhases(createPhase("first"), "{func: KubeOps, name: second, args: {namespace: default}}"),
		events:    []string{"SA go", "F Failed to launch Action missing-arg: Required args missing for function KubeOps: Required arg missing: operation"},
		end:       "failed first=pending second=failed; Required args missing for function KubeOps: Required arg missing: operation",
	},
	"unsupported-arg": {
		blueprint: goPhases(createPhase("first")) + withDefer("{func: KubeOps, name: cleanup, args: {operation: create, bogus: 1}}"),
		events:    []string{"SA go", "F Failed to launch Action unsupported-arg: Checking supported args for function KubeOps.: argument bogus is not supported"},
		end:       "failed first=pending defer cleanup=failed; Checking supported args for function KubeOps.: argument bogus is not supported",
	},
	"missing-blueprint": {
		actions: []string{"{name: go, blueprint: no-such-blueprint" + onNamespace},
		events:  []string{`W "Error" Could not get blueprint: Failed to query blueprint: blueprints.cr.kanister.io "no-such-blueprint" not found`},
		end:     `failed; Failed to query blueprint: blueprints.cr.kanister.io "no-such-blueprint" not found`,
	},
	"missing-action": {
		blueprint: goPhases(createPhase("first")),
		actions:   []string{"{name: other, blueprint: $ME" + onNamespace},
		events:    []string{"A other", "F Could not get initial action: Action other for object kind Namespace not found in blueprint missing-action"},
		end:       "failed; Action other for object kind Namespace not found in blueprint missing-action",
	},
	"empty-blueprint-name": {
		actions: []string{"{name: go" + onNamespace},
		events:  []string{`W "Blueprint not specified" Could not get blueprint: Blueprint is not specified for action`},
		end:     "failed; Blueprint is not specified for action",
	},
	"bad-subject": {
		blueprint: goPhases(createPhase("first")),
		actions:   []string{"{name: go, blueprint: $ME, object: {kind: Widget, name: a, namespace: $NS}}"},
		events:    []string{`W "Error" Not a known object Kind Widget. Action go must specify Resource name and API version: Validation Failed`},
		end:       "failed; Not a known object Kind Widget. Action go must specify Resource name and API version: Validation Failed",
	},
	"missing-subject": {
		blueprint: goPhases(createPhase("first"), createPhase("second")),
		actions:   []string{"{name: go, blueprint: $ME, object: {kind: Deployment, name: none, namespace: $NS}}"},
		events:    []string{"SA go", `F Failed to launch Action missing-subject: deployments.apps "none" not found`},
		end:       `failed first=failed second=pending; deployments.apps "none" not found`,
	},
	"no-phases-missing-subject": {
		blueprint: "go: {}\n",
		actions:   []string{"{name: go, blueprint: $ME, object: {kind: StatefulSet, name: none, namespace: $NS}}"},
		events:    []string{"SA go", `F Failed to launch Action no-phases-missing-subject: statefulsets.apps "none" not found`},
		end:       `failed; statefulsets.apps "none" not found`,
	},
	"missing-secret": {
		blueprint: goPhases(createPhase("first")),
		actions:   []string{"{name: go, blueprint: $ME, secrets: {s: {name: none, namespace: $NS}}" + onNamespace},
		events:    []string{"SA go", `F Failed to launch Action missing-secret: secrets "none" not found`},
		end:       `failed first=failed; secrets "none" not found`,
	},
	"missing-config-map": {
		blueprint: goPhases(createPhase("first")),
		actions:   []string{"{name: go, blueprint: $ME, configMaps: {c: {name: none, namespace: $NS}}" + onNamespace},
		events:    []string{"SA go", `F Failed to launch Action missing-config-map: configmaps "none" not found`},
		end:       `failed first=failed; configmaps "none" not found`,
	},
	"missing-profile": {
		blueprint: goPhases(createPhase("first")),
		actions:   []string{"{name: go, blueprint: $ME, profile: {name: none, namespace: $NS}" + onNamespace},
		events:    []string{"SA go", `F Failed to launch Action missing-profile: profiles.cr.kanister.io "none" not found`},
		end:       `failed first=failed; profiles.cr.kanister.io "none" not found`,
	},
	"bad-version": {
		blueprint: goPhases(createPhase("first")),
		actions:   []string{"{name: go, blueprint: $ME, preferredVersion: nonsense" + onNamespace},
		events:    []string{"SA go", "F Failed to launch Action bad-version: Failed to get function version: Failed to parse function version {nonsense}: Invalid Semantic Version"},
		end:       "failed first=failed; Failed to get function version: Failed to parse function version {nonsense}: Invalid Semantic Version",
	},
	"same-phase-name": {
		blueprint: goPhases(createPhase("same"), createPhase("same")),
		events:    []string{"SA go", `F Failed to launch Action same-phase-name: two phases of action go in blueprint same-phase-name are named "same": give each a name of its own`},
		end:       `failed same=pending same=failed; two phases of action go in blueprint same-phase-name are named "same": give each a name of its own`,
	},
	"deployment-config": {
		blueprint: goPhases(createPhase("first")),
		actions:   []string{"{name: go, blueprint: $ME, object: {kind: DeploymentConfig, name: none, namespace: $NS}}"},
		events:    []string{`W "Error" Action go: subjects of kind DeploymentConfig are not supported yet: Validation Failed`},
		end:       "failed; Action go: subjects of kind DeploymentConfig are not supported yet: Validation Failed",
	},
	"second-action": { // the first one is not started either
		blueprint: goPhases(createPhase("first")),
		actions:   []string{goOnNamespace, "{name: go, blueprint: no-such-blueprint" + onNamespace},
		events:    []string{`W "Error" Could not get blueprint: Failed to query blueprint: blueprints.cr.kanister.io "no-such-blueprint" not found`},
		end:       `failed; Failed to query blueprint: blueprints.cr.kanister.io "no-such-blueprint" not found`,
	},
}

func TestActionSetInvalid(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	e.createSet(&v1alpha1.ActionSet{ObjectMeta: metav1.ObjectMeta{Name: "no-spec"}})
	e.playScenarios(invalidScenarios)
	e.wantEnd("no-spec", "failed; Spec must be non-nil: Validation Failed")
	e.wantEvents("no-spec", `W "Error" Spec must be non-nil: Validation Failed`)

	for _, name := range append(slices.Collect(maps.Keys(invalidScenarios)), "no-spec") {
		set := e.getSet(name)
		failed := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionFailed)
		if failed.Reason != v1alpha1.ReasonInvalid || !strings.HasSuffix(failed.Message, set.Status.Error.Message) {
			t.Errorf("ActionSet %s: condition Failed: got %s: %s, want Invalid, and in the end the error of the status", name, failed.Reason, failed.Message)
		}
	}
	if list, err := e.kube.CoreV1().ConfigMaps(e.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"}); err != nil || len(list.Items) > 0 {
		t.Errorf("got %d ConfigMaps of invalid ActionSets (%v), want none", len(list.Items), err)
	}
	// A failed ActionSet stays failed after the object that was missing is created.
	e.blueprint("no-such-blueprint", goPhases(createPhase("first")))
	e.patchSet("missing-blueprint", `{"metadata":{"labels":{"a":"b"}}}`)
	e.blueprint("last", goPhases(createPhase("first")))
	e.actionSet("last")
	e.awaitEnd("last")
	e.wantEnd("missing-blueprint", invalidScenarios["missing-blueprint"].end)
}

// A status that an ActionSet is created with, for example from a backup, does not count for this run.
func TestActionSetCreatedWithStatus(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	e.blueprint("given", goPhases(createPhase("first")))
	e.createSet(&v1alpha1.ActionSet{
		ObjectMeta: metav1.ObjectMeta{Name: "given"},
		Spec: &v1alpha1.ActionSetSpec{Actions: []v1alpha1.ActionSpec{{
			Name: "go", Blueprint: "given", Object: v1alpha1.ObjectReference{Kind: "Namespace", Name: e.namespace, Namespace: e.namespace},
		}}},
		Status: &v1alpha1.ActionSetStatus{
			State: v1alpha1.StateRunning, StartTime: &metav1.Time{Time: metav1.Now().Time},
			Actions: []v1alpha1.ActionStatus{{Name: "go", Phases: []v1alpha1.Phase{
				{Name: "first", State: v1alpha1.StateComplete, Output: &runtime.RawExtension{Raw: []byte(`{"a":"b"}`)}},
			}}},
		},
	})
	e.wantEnd("given", "complete first=complete; 100%")
	if e.configMap("given-first") == nil {
		t.Error("the phase did not run: it was considered complete")
	}
}
