// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// The manifests restrict the operator and its rights to one namespace.
func TestActionSetOtherNamespaces(t *testing.T) {
	e := newActionsEnv(t)
	other := *e
	other.env = newEnv(t, e.cluster)
	e.run(nil)
	other.startRun("not-ours", "  phases: ["+createPhase("first")+"]\n")
	e.startRun("ours", "  phases: ["+createPhase("first")+"]\n")
	e.wantEnd("ours", "complete first=complete; 100%")
	if set := other.getSet("not-ours"); set.Status.State != "" || other.configMap("not-ours-first") != nil {
		t.Errorf("ActionSet of another namespace: got %s, want no status", summary(set))
	}
}

// In a terminating namespace the RoleBindings of the operator are deleted before the ActionSet. The operator removes its finalizer and
// does nothing else.
func TestActionSetTerminatingNamespace(t *testing.T) {
	e := newActionsEnv(t)
	elsewhere := e.cluster.Namespace(t)
	cleanup := strings.ReplaceAll(createPhase("cleanup"), "$NS", elsewhere)
	e.createConfigMap("held-kept", map[string]string{"ready": "no"})
	e.run(nil)
	e.startRun("held", "  phases: ["+longPhases["wait"]+"]\n  deferPhase: "+cleanup+"\n")
	if set := e.awaitPhase("held", "long", v1alpha1.StateRunning); len(set.Finalizers) == 0 {
		t.Error("the ActionSet has no finalizer")
	}
	e.beginDeletion(e.namespace)
	e.awaitGone("held")
	_, err := e.kube.CoreV1().ConfigMaps(elsewhere).Get(t.Context(), "held-cleanup", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("ConfigMap of the deferPhase: got %v, want not found", err)
	}
}
