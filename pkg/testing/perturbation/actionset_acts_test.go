// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"millwright.dev/pkg/testing/perturbation"
)

// Actions of Blueprints, in YAML. $NS is the namespace of the run. The value of a ConfigMap shows which phase has created it.
const (
	tenPhases = `
go:
  outputArtifacts:
    result: {keyValue: {replicas: '{{ .Phases.scaled.Output.originalReplicaCount }}', last: '{{ .Phases.last.Output.name }}'}}
  phases:
  - {name: first, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {value: "{{ .Options.value }}"}}'}}
  - {name: named, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: named}, data: {value: "{{ .Phases.first.Output.name }}"}}'}}
  - {name: patched, func: KubeOps, args: {operation: patch, namespace: $NS, objectReference: {apiVersion: v1, resource: configmaps, name: '{{ .Phases.first.Output.name }}'}, spec: '{data: {value: "3"}}'}}
  - {name: scaled, func: ScaleWorkload, args: {replicas: 2}}
  - {name: count, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: count}, data: {value: "{{ .Phases.scaled.Output.originalReplicaCount }}"}}'}}
  - {name: wait, func: Wait, args: {timeout: 10m, conditions: {allOf: [{condition: '{{ if eq "{ $.status.readyReplicas }" "2" }}true{{ end }}', objectReference: {apiVersion: v1, group: apps, resource: deployments, name: web, namespace: $NS}}]}}}
  - {name: old, func: KubeOps, args: {operation: delete, namespace: $NS, objectReference: {apiVersion: v1, resource: configmaps, name: old}}}
  - {name: again, func: KubeOps, args: {operation: patch, namespace: $NS, objectReference: {apiVersion: v1, resource: configmaps, name: first}, spec: '{data: {value: "8"}}'}}
  - name: many
    func: KubeOps
    args:
      operation: create
      namespace: $NS
      spec: |
        {apiVersion: v1, kind: ConfigMap, metadata: {name: many-a}, data: {value: "1"}}
        ---
        {apiVersion: v1, kind: ConfigMap, metadata: {name: many-b}, data: {value: "2"}}
  - {name: last, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: last}, data: {value: "3"}}'}}
  deferPhase: {name: cleanup, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: cleanup}, data: {value: "{{ .Options.value }}"}}'}}
`
	twoActions = `
a:
  outputArtifacts: {result: {keyValue: {name: '{{ .Phases.a2.Output.name }}'}}}
  phases:
  - {name: a1, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a1}, data: {value: "1"}}'}}
  - {name: a2, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a2}, data: {value: "{{ .Phases.a1.Output.name }}"}}'}}
b:
  phases:
  - {name: b1, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: b1}, data: {value: "1"}}'}}
  - {name: b2, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: b2}, data: {value: "2"}}'}}
`
	withoutDeferPhase = `
go:
  phases:
  - {name: before, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: "before-{{ .Options.value }}"}, data: {value: "{{ .Options.value }}"}}'}}
  - {name: wait, func: Wait, args: {timeout: 10m, conditions: {anyOf: [{condition: '{{ if eq "{ $.data.value }" "open" }}true{{ end }}', objectReference: {apiVersion: v1, resource: configmaps, name: gate, namespace: $NS}}]}}}
  - {name: after, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: "after-{{ .Options.value }}"}, data: {value: "{{ .Options.value }}"}}'}}
`
	waitsInTheMiddle = withoutDeferPhase + `
  deferPhase: {name: cleanup, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: "cleanup-{{ .Options.value }}"}, data: {value: "{{ .Options.value }}"}}'}}
`
	failsInTheMiddle = `
go:
  phases:
  - {name: before, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: before}, data: {value: "1"}}'}}
  - {name: fails, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: taken}, data: {value: "2"}}'}}
  - {name: after, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: after}, data: {value: "3"}}'}}
  deferPhase: {name: cleanup, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: cleanup}, data: {value: "1"}}'}}
`
)

// makeBlueprint creates the only Blueprint.
func makeBlueprint(actions string) perturbation.Act {
	return act("create the Blueprint", func(ctx context.Context, user *perturbation.User) error {
		fields := map[string]any{}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(actions, "$NS", user.Namespace)), &fields); err != nil {
			return fmt.Errorf("reading the Blueprint: %w", err)
		}
		return put(blueprints, "Blueprint", name, nil, map[string]any{"actions": fields})(ctx, user)
	}, noCondition)
}

func makeDeployment() perturbation.Act {
	return act("create the Deployment", put(deployments, "Deployment", name, nil, map[string]any{"spec": deploymentSpec("nginx:1")}),
		func(ctx context.Context, user *perturbation.User) (bool, error) { return rolledOut(ctx, user, one) })
}

func makeConfigMapOf(name, value string) perturbation.Act {
	return act("create ConfigMap "+name, makeConfigMap(name, value, nil), noCondition)
}

func noCondition(context.Context, *perturbation.User) (bool, error) { return true, nil }

// runSet is the act that creates the only ActionSet.
func runSet(kind, value string, until until) perturbation.Act {
	return act("create the ActionSet", makeSet(kind, value), until)
}

// makeSet creates the only ActionSet. Its only action is on a subject of that kind.
func makeSet(kind, value string) doing {
	return func(ctx context.Context, user *perturbation.User) error {
		return putSet(ctx, user, map[string]any{
			"name": "go", "blueprint": name, "object": subjectOf(user, kind), "options": map[string]any{"value": value},
		})
	}
}

// runBoth is the act that creates the only ActionSet with two actions.
func runBoth(until until) perturbation.Act {
	return act("create the ActionSet", func(ctx context.Context, user *perturbation.User) error {
		return putSet(ctx, user,
			map[string]any{"name": "a", "blueprint": name, "object": subjectOf(user, "Namespace")},
			map[string]any{"name": "b", "blueprint": name, "object": subjectOf(user, "Namespace")})
	}, until)
}

func putSet(ctx context.Context, user *perturbation.User, actions ...any) error {
	return put(actionSets, "ActionSet", name, nil, map[string]any{"spec": map[string]any{"actions": actions}})(ctx, user)
}

func subjectOf(user *perturbation.User, kind string) map[string]any {
	named := name
	if kind == "Namespace" {
		named = user.Namespace
	}
	return map[string]any{"kind": kind, "name": named, "namespace": user.Namespace}
}

var cancelSet = patch(actionSets, name, map[string]any{"spec": map[string]any{"cancel": true}})

// flickerSet changes the resourceVersions of the objects that the controller writes with a precondition.
func flickerSet(ctx context.Context, user *perturbation.User) error {
	var errs []error
	for _, value := range []any{"on", nil} {
		for _, step := range []doing{
			setLabel(actionSets, name, "flicker", value),
			setLabel(deployments, name, "flicker", value),
			setLabel(configMaps, "first", "flicker", value),
		} {
			if err := step(ctx, user); err != nil && !apierrors.IsNotFound(err) { // there may be none during a flicker
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
