// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/perturbation"
)

// In these scenarios something goes away that a running ActionSet has used: a Secret, the rights of its phases, the namespace of its application. The run
// goes on with what does not need it, ends, and lets the ActionSet be deleted.

// Blueprints of these scenarios. $APP is the namespace of the application.
const (
	usesSecret = `
go:
  phases:
  - {name: before, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: before}, data: {value: "{{ .Secrets.creds.Data.value | toString }}"}}'}}
  - {name: wait, func: Wait, args: {timeout: 10m, conditions: {anyOf: [{condition: '{{ if eq "{ $.metadata.labels.gate }" "open" }}true{{ end }}', objectReference: {group: cr.kanister.io, apiVersion: v1alpha1, resource: blueprints, name: web, namespace: $NS}}]}}}
  - {name: after, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: after}, data: {value: "2"}}'}}
  deferPhase: {name: cleanup, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: cleanup}, data: {value: "3"}}'}}
`
	worksElsewhere = `
go:
  phases:
  - {name: wait, func: Wait, args: {timeout: 10m, conditions: {anyOf: [{condition: 'false', objectReference: {apiVersion: v1, resource: namespaces, name: $APP}}]}}}
  deferPhase: {name: cleanup, func: KubeOps, args: {operation: create, namespace: $NS, spec: '{apiVersion: v1, kind: ConfigMap, metadata: {name: cleanup}, data: {value: "1"}}'}}
`
)

// runWithSecret is the act that creates the only ActionSet, which names a Secret.
func runWithSecret(until until) perturbation.Act {
	return act("create the ActionSet", in(
		put(secrets, "Secret", "creds", nil, map[string]any{"stringData": map[string]any{"value": "1"}}),
		func(ctx context.Context, user *perturbation.User) error {
			return putSet(ctx, user, map[string]any{
				"name": "go", "blueprint": name, "object": subjectOf(user, "Namespace"),
				"secrets": map[string]any{"creds": map[string]any{"name": "creds", "namespace": user.Namespace}},
			})
		},
	), until)
}

// The rights of the controller are those of its own, which stay, and those of the phases, which go.
const ownRights, snapshotRights, phaseRights = "own", "snapshots", "phases"

// giveActionRights is the act that gives the restricted controller of the run all rights.
func giveActionRights() perturbation.Act {
	return act("give all rights", in(
		makeRole(ownRights, v1alpha1.GroupVersion.Group, "actionsets", "actionsets/status", "actionsets/finalizers", "blueprints", "profiles"),
		makeRole(snapshotRights, "", "secrets", "namespaces"), makeRole(phaseRights, "", "configmaps"),
		give(ownRights, actionSets), give(snapshotRights, secrets), give(phaseRights, configMaps),
	), noCondition)
}

// startRestrictedActionSets runs one instance as a user that has no other rights than those of the run and of the group.
func startRestrictedActionSets(ctx context.Context, config *rest.Config, namespace string) error {
	return startActionSets(ctx, restrictedConfig(config, namespace), namespace)
}

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

func applicationOf(user *perturbation.User) string { return user.RunName() + "-app" }

// makeApplication is the act that creates the namespace of the application, and the Blueprint that works there.
func makeApplication() perturbation.Act {
	return act("create the application", func(ctx context.Context, user *perturbation.User) error {
		namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		namespace.SetName(applicationOf(user))
		if _, err := user.Client.Resource(namespaces).Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return err
		}
		return makeBlueprint(strings.ReplaceAll(worksElsewhere, "$APP", applicationOf(user))).Do(ctx, user)
	}, noCondition)
}

// removeApplication deletes the namespace of the application, and waits until it is gone.
func removeApplication(ctx context.Context, user *perturbation.User) error {
	if err := user.Client.Resource(namespaces).Delete(ctx, applicationOf(user), metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, func() error {
		_, err := user.Client.Resource(namespaces).Get(ctx, applicationOf(user), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the namespace exists: %w", err)
	})
}

// removeSet is the act that deletes the only ActionSet.
func removeSet() perturbation.Act {
	return act("delete the ActionSet", remove(actionSets, name, metav1.DeletePropagationBackground), setIsGone)
}
