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

// The manifests say so: the operator serves one namespace, with rights in that alone.
func TestActionSetOtherNamespaces(t *testing.T) {
	e := newActionsEnv(t)
	other := *e
	other.env = newEnv(t, e.cluster)
	e.run(nil)
	other.goes("not-ours", "  phases: ["+creating("first")+"]\n")
	e.goes("ours", "  phases: ["+creating("first")+"]\n")
	e.ends("ours", "complete first=complete; 100%")
	if set := other.getSet("not-ours"); set.Status.State != "" || other.configMap("not-ours-first") != nil {
		t.Errorf("an ActionSet of another namespace is %s", summary(set))
	}
}

// The RoleBindings of the operator go before the ActionSet does. Nothing that the run could still do is done.
func TestActionSetTerminatingNamespace(t *testing.T) {
	e := newActionsEnv(t)
	elsewhere := e.cluster.Namespace(t)
	cleanup := strings.ReplaceAll(creating("cleanup"), "$NS", elsewhere)
	e.createConfigMap("held-kept", map[string]string{"ready": "no"})
	e.run(nil)
	e.goes("held", "  phases: ["+longPhases["wait"]+"]\n  deferPhase: "+cleanup+"\n")
	if set := e.awaitPhase("held", "long", v1alpha1.StateRunning); len(set.Finalizers) == 0 {
		t.Error("it has no finalizer")
	}
	if err := e.kube.CoreV1().Namespaces().Delete(t.Context(), e.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitGone("held")
	_, err := e.kube.CoreV1().ConfigMaps(elsewhere).Get(t.Context(), "held-cleanup", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("its deferPhase has run: %v", err)
	}
}
