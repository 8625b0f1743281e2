// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

var invalidScenarios = map[string]scenario{
	"unknown-function": {
		blueprint: goPhases(creating("first"), "{func: NoSuchFunc, name: second, args: {}}"),
		events:    []string{"SA go", "F Failed to launch Action unknown-function: Requested function {NoSuchFunc} has not been registered"},
		end:       "failed first=pending second=failed; Requested function {NoSuchFunc} has not been registered",
	},
	"missing-arg": {
		blueprint: goPhases(creating("first"), "{func: KubeOps, name: second, args: {namespace: default}}"),
		events:    []string{"SA go", "F Failed to launch Action missing-arg: Required args missing for function KubeOps: Required arg missing: operation"},
		end:       "failed first=pending second=failed; Required args missing for function KubeOps: Required arg missing: operation",
	},
	"unsupported-arg": {
		blueprint: goPhases(creating("first")) + withDefer("{func: KubeOps, name: cleanup, args: {operation: create, bogus: 1}}"),
		events:    []string{"SA go", "F Failed to launch Action unsupported-arg: Checking supported args for function KubeOps.: argument bogus is not supported"},
		end:       "failed first=pending defer cleanup=failed; Checking supported args for function KubeOps.: argument bogus is not supported",
	},
	"missing-blueprint": {
		actions: []string{"{name: go, blueprint: no-such-blueprint" + onNothing},
		events:  []string{`W "Error" Could not get blueprint: Failed to query blueprint: blueprints.cr.kanister.io "no-such-blueprint" not found`},
		end:     `failed; Failed to query blueprint: blueprints.cr.kanister.io "no-such-blueprint" not found`,
	},
	"missing-action": {
		blueprint: goPhases(creating("first")),
		actions:   []string{"{name: other, blueprint: $ME" + onNothing},
		events:    []string{"A other", "F Could not get initial action: Action other for object kind Namespace not found in blueprint missing-action"},
		end:       "failed; Action other for object kind Namespace not found in blueprint missing-action",
	},
	"empty-blueprint-name": {
		actions: []string{"{name: go" + onNothing},
		events:  []string{`W "Blueprint not specified" Could not get blueprint: Blueprint is not specified for action`},
		end:     "failed; Blueprint is not specified for action",
	},
	"bad-subject": {
		blueprint: goPhases(creating("first")),
		actions:   []string{"{name: go, blueprint: $ME, object: {kind: Widget, name: a, namespace: $NS}}"},
		events:    []string{`W "Error" Not a known object Kind Widget. Action go must specify Resource name and API version: Validation Failed`},
		end:       "failed; Not a known object Kind Widget. Action go must specify Resource name and API version: Validation Failed",
	},
	"missing-subject": {
		blueprint: goPhases(creating("first"), creating("second")),
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
		blueprint: goPhases(creating("first")),
		actions:   []string{"{name: go, blueprint: $ME, secrets: {s: {name: none, namespace: $NS}}" + onNothing},
		events:    []string{"SA go", `F Failed to launch Action missing-secret: secrets "none" not found`},
		end:       `failed first=failed; secrets "none" not found`,
	},
	"missing-config-map": {
		blueprint: goPhases(creating("first")),
		actions:   []string{"{name: go, blueprint: $ME, configMaps: {c: {name: none, namespace: $NS}}" + onNothing},
		events:    []string{"SA go", `F Failed to launch Action missing-config-map: configmaps "none" not found`},
		end:       `failed first=failed; configmaps "none" not found`,
	},
	"missing-profile": {
		blueprint: goPhases(creating("first")),
		actions:   []string{"{name: go, blueprint: $ME, profile: {name: none, namespace: $NS}" + onNothing},
		events:    []string{"SA go", `F Failed to launch Action missing-profile: profiles.cr.kanister.io "none" not found`},
		end:       `failed first=failed; profiles.cr.kanister.io "none" not found`,
	},
	"bad-version": {
		blueprint: goPhases(creating("first")),
		actions:   []string{"{name: go, blueprint: $ME, preferredVersion: nonsense" + onNothing},
		events:    []string{"SA go", "F Failed to launch Action bad-version: Failed to get function version: Failed to parse function version {nonsense}: Invalid Semantic Version"},
		end:       "failed first=failed; Failed to get function version: Failed to parse function version {nonsense}: Invalid Semantic Version",
	},
	"same-phase-name": {
		blueprint: goPhases(creating("same"), creating("same")),
		events:    []string{"SA go", `F Failed to launch Action same-phase-name: two phases of action go in blueprint same-phase-name are named "same": give each a name of its own`},
		end:       `failed same=pending same=failed; two phases of action go in blueprint same-phase-name are named "same": give each a name of its own`,
	},
	"deployment-config": {
		blueprint: goPhases(creating("first")),
		actions:   []string{"{name: go, blueprint: $ME, object: {kind: DeploymentConfig, name: none, namespace: $NS}}"},
		events:    []string{`W "Error" Action go: subjects of kind DeploymentConfig are not supported yet: Validation Failed`},
		end:       "failed; Action go: subjects of kind DeploymentConfig are not supported yet: Validation Failed",
	},
	"second-action": { // the first one is not started either
		blueprint: goPhases(creating("first")),
		actions:   []string{goOnNamespace, "{name: go, blueprint: no-such-blueprint" + onNothing},
		events:    []string{`W "Error" Could not get blueprint: Failed to query blueprint: blueprints.cr.kanister.io "no-such-blueprint" not found`},
		end:       `failed; Failed to query blueprint: blueprints.cr.kanister.io "no-such-blueprint" not found`,
	},
}

func TestActionSetInvalid(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	e.createSet(&v1alpha1.ActionSet{ObjectMeta: metav1.ObjectMeta{Name: "no-spec"}})
	e.play(invalidScenarios)
	e.ends("no-spec", "failed; Spec must be non-nil: Validation Failed")
	e.hasEvents("no-spec", `W "Error" Spec must be non-nil: Validation Failed`)

	for _, name := range append(slices.Collect(maps.Keys(invalidScenarios)), "no-spec") {
		set := e.getSet(name)
		failed := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionFailed)
		if failed.Reason != v1alpha1.ReasonInvalid || failed.Message != set.Status.Error.Message {
			t.Errorf("%s: Failed is %s: %s", name, failed.Reason, failed.Message)
		}
	}
	if list, err := e.kube.CoreV1().ConfigMaps(e.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"}); err != nil || len(list.Items) > 0 {
		t.Errorf("phases of ActionSets that cannot run have made %d ConfigMaps (%v)", len(list.Items), err)
	}
	// What has failed stays so, whatever becomes of what it names.
	e.blueprint("no-such-blueprint", goPhases(creating("first")))
	e.patchSet("missing-blueprint", `{"metadata":{"labels":{"a":"b"}}}`)
	e.blueprint("last", goPhases(creating("first")))
	e.actionSet("last")
	e.awaitEnd("last")
	e.ends("missing-blueprint", invalidScenarios["missing-blueprint"].end)
}

// A status that comes with an ActionSet, as from a backup of it, is not one of this run.
func TestActionSetCreatedWithStatus(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	e.blueprint("given", goPhases(creating("first")))
	e.createSet(&v1alpha1.ActionSet{
		ObjectMeta: metav1.ObjectMeta{Name: "given"},
		Spec: &v1alpha1.ActionSetSpec{Actions: []v1alpha1.ActionSpec{{
			Name: "go", Blueprint: "given", Object: v1alpha1.ObjectReference{Kind: "Namespace", Name: e.namespace, Namespace: e.namespace},
		}}},
		Status: &v1alpha1.ActionSetStatus{
			State: v1alpha1.StateRunning, StartTime: &metav1.Time{Time: metav1.Now().Time},
			Actions: []v1alpha1.ActionStatus{{Name: "go", Phases: []v1alpha1.Phase{{Name: "first", State: v1alpha1.StateComplete, Output: &runtime.RawExtension{Raw: []byte(`{"a":"b"}`)}}}}},
		},
	})
	e.ends("given", "complete first=complete; 100%")
	if e.configMap("given-first") == nil {
		t.Error("its phase was taken for done")
	}
}
