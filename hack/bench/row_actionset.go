// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

const (
	// phasesPerAction is the number of phases of the one action of each ActionSet. Each creates a ConfigMap.
	phasesPerAction = 3
	blueprintName   = "creates"
)

var actionSets = scenario{
	name: "actionset", about: "cold start of ActionSets with 3 phases, over the bare client",
	size: 500, quickSize: 25,
	measure: func(ctx context.Context, t *turn) error { return t.contest(ctx, &actionSetWorkload) },
}

var actionSetWorkload = workload{
	resource: v1alpha1.Resource("actionsets").WithVersion(v1alpha1.GroupVersion.Version),
	prepare:  createBlueprint,
	create:   createActionSet,
	observe: func(ctx context.Context, n *namespace, o *observer) error {
		if err := o.follow(ctx, actionSetComplete.kind, metav1.ListOptions{}, n.client.CrV1alpha1().ActionSets(n.name).Watch, markOfActionSet); err != nil {
			return err
		}
		return o.followEvents(ctx, n, "ActionSet")
	},
	phases: []phase{{
		name: "cold start", reached: actionSetComplete, events: 2 + 2*phasesPerAction,
		// The subject, the snapshot created and deleted, the effect of each phase, a status before each and at the end, and for
		// events the start and the end of the action and of each phase.
		requests: 1 + 2 + phasesPerAction + (phasesPerAction + 1) + 2 + 2*phasesPerAction,
	}},
	flags:          []string{"--controllers=actionset"},
	cpuPerSyncGoal: 10,
}

// createBlueprint creates the one whose action all ActionSets of the namespace run.
func createBlueprint(ctx context.Context, n *namespace) error {
	var action v1alpha1.BlueprintAction
	for i := range phasesPerAction {
		args, err := json.Marshal(map[string]any{
			"operation": "create", "namespace": n.name,
			"spec": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Options.name }}-%d'}\ndata: {at: '{{ .Time }}'}\n", i+1),
		})
		if err != nil {
			return err
		}
		phase := v1alpha1.BlueprintPhase{Name: fmt.Sprint("phase", i+1), Func: "KubeOps", Args: &runtime.RawExtension{Raw: args}}
		action.Phases = append(action.Phases, phase)
	}
	blueprint := &v1alpha1.Blueprint{
		ObjectMeta: metav1.ObjectMeta{Name: blueprintName}, Actions: map[string]v1alpha1.BlueprintAction{"go": action},
	}
	if _, err := n.client.CrV1alpha1().Blueprints(n.name).Create(ctx, blueprint, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating Blueprint %s/%s: %w", n.name, blueprintName, err)
	}
	return nil
}

// createActionSet creates an ActionSet and its subject.
func createActionSet(ctx context.Context, n *namespace, name string) error {
	subject := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name + "-subject"}}
	if _, err := n.kubeClient.CoreV1().ConfigMaps(n.name).Create(ctx, subject, metav1.CreateOptions{}); err != nil {
		return err
	}
	reference := v1alpha1.ObjectReference{APIVersion: "v1", Resource: "configmaps", Kind: "ConfigMap", Name: subject.Name, Namespace: n.name}
	_, err := n.client.CrV1alpha1().ActionSets(n.name).Create(ctx, &v1alpha1.ActionSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: &v1alpha1.ActionSetSpec{Actions: []v1alpha1.ActionSpec{{
			Name: "go", Blueprint: blueprintName, Options: map[string]string{"name": name}, Object: reference,
		}}},
	}, metav1.CreateOptions{})
	return err
}

var actionSetComplete = milestone{"ActionSets", string(v1alpha1.StateComplete)}

// markOfActionSet is the state when nothing more will be written.
func markOfActionSet(event watch.Event) (name, mark string) {
	set := event.Object.(*v1alpha1.ActionSet)
	if set.Status != nil && set.Status.CompletionTime != nil {
		mark = string(set.Status.State)
	}
	return set.Name, mark
}
