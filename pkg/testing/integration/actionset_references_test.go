// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

const notASegment = `may not contain '/'`

// The client refuses these names before it sends a request. Such an error cannot go away: the run fails and is not retried.
func TestActionSetInvalidReference(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	namespaced := "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character " +
		"(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
	e.blueprint("runs", goPhases(createPhase("first")))
	e.blueprint("objects", "go:\n  phases:\n  - {func: KubeOps, name: first, objects: {creds: {kind: Secret, name: '../{{ .Options.name }}', namespace: $NS}}, args: {operation: create}}\n")
	for name, c := range map[string]struct{ action, want string }{
		"blueprint":     {"{name: go, blueprint: ../runs" + onNamespace, `failed; spec.actions[0].blueprint is "../runs": ` + notASegment + ": Validation Failed"},
		"subject":       {"{name: go, blueprint: runs, object: {kind: StatefulSet, name: ../db, namespace: $NS}}", `failed; spec.actions[0].object.name is "../db": ` + notASegment + ": Validation Failed"},
		"no-name":       {"{name: go, blueprint: runs, object: {kind: StatefulSet, namespace: $NS}}", "failed; spec.actions[0].object.name is empty: Validation Failed"},
		"namespace":     {"{name: go, blueprint: runs, object: {kind: StatefulSet, name: db, namespace: a/b}}", `failed; spec.actions[0].object.namespace is "a/b": ` + namespaced + ": Validation Failed"},
		"resource":      {"{name: go, blueprint: runs, object: {apiVersion: v1, resource: ../pods, name: db, namespace: $NS}}", `failed; spec.actions[0].object.resource is "../pods": ` + namespaced + ": Validation Failed"},
		"secret":        {"{name: go, blueprint: runs, secrets: {s: {name: a/b, namespace: $NS}}" + onNamespace, `failed; spec.actions[0].secrets[s].name is "a/b": ` + notASegment + ": Validation Failed"},
		"config-map":    {"{name: go, blueprint: runs, configMaps: {c: {name: '..', namespace: $NS}}" + onNamespace, `failed; spec.actions[0].configMaps[c].name is "..": may not be '..': Validation Failed`},
		"profile":       {"{name: go, blueprint: runs, profile: {namespace: $NS}" + onNamespace, "failed; spec.actions[0].profile.name is empty: Validation Failed"},
		"phase-objects": {"{name: go, blueprint: objects, options: {name: x}" + onNamespace, `failed first=failed; objects.creds of phase first.name is "../x": ` + notASegment},
	} {
		e.actionSet(name, c.action)
		set := e.wantEnd(name, c.want)
		if failed := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionFailed); failed.Reason != v1alpha1.ReasonInvalid {
			t.Errorf("%s: got the reason %s, want %s", name, failed.Reason, v1alpha1.ReasonInvalid)
		}
	}
}

// Arguments are rendered when their phase starts, so it is the phase that fails.
func TestActionSetInvalidReferenceInArgs(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	for name, phase := range map[string]string{
		"pod-namespace": "{func: KubeTask, name: go, args: {namespace: '{{ .Options.bad }}', image: x, command: [x]}}",
		"exec-pod":      "{func: KubeExec, name: go, args: {namespace: $NS, pod: '{{ .Options.bad }}', command: [x]}}",
		"exec-in":       "{func: KubeExec, name: go, args: {namespace: $NS, pod: x, container: '{{ .Options.bad }}', command: [x]}}",
		"exec-all":      "{func: KubeExecAll, name: go, args: {namespace: '{{ .Options.bad }}', pods: x, containers: x, command: [x]}}",
		"claim":         "{func: PrepareData, name: go, args: {namespace: $NS, image: x, command: [x], volumes: {'{{ .Options.bad }}': /data}}}",
		"scaled":        "{func: ScaleWorkload, name: go, args: {kind: deployment, namespace: $NS, name: '{{ .Options.bad }}', replicas: 1}}",
		"made-in":       "{func: KubeOps, name: go, args: {operation: create, namespace: '{{ .Options.bad }}', spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}'}}",
		"made":          "{func: KubeOps, name: go, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ .Options.bad }}\"}}'}}",
		"deleted":       "{func: KubeOps, name: go, args: {operation: delete, objectReference: {apiVersion: v1, resource: configmaps, namespace: $NS, name: '{{ .Options.bad }}'}}}",
		"waited-for":    "{func: Wait, name: go, args: {timeout: 60s, conditions: {allOf: [{condition: 'true', objectReference: {apiVersion: v1, resource: configmaps, namespace: $NS, name: '{{ .Options.bad }}'}}]}}}",
	} {
		e.blueprint(name, goPhases(phase))
		e.actionSet(name, "{name: go, blueprint: $ME, options: {bad: ../x}"+onNamespace)
		set := e.awaitEnd(name)
		if message := set.Status.Error.Message; !strings.Contains(message, `is "../x": `) {
			t.Errorf("%s: got %s, want an error with the invalid name", name, summary(set))
		}
	}
}

func TestActionSetWrongSubjectKind(t *testing.T) {
	e := newActionsEnv(t)
	e.run(nil)
	e.startRun("kind", "  phases:\n  - {func: KubeTask, name: task, args: {image: x, command: ['{{ .Deployment.Name }}']}}\n")
	set := e.awaitEnd("kind")
	want := `the subject of the action is the Namespace "` + e.namespace + `": the template uses .Deployment, which exists only for subjects of kind Deployment`
	if message := set.Status.Error.Message; !strings.Contains(message, want) || strings.Contains(message, "nil pointer") {
		t.Errorf("got %s, want an error with %q", summary(set), want)
	}
}
