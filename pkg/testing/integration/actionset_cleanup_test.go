// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
)

// The namespace of a Pod is deleted, with the rights of the operator there, while its phase runs: the phase fails, the run goes on, the next process looks for
// the Pod once, and the clean-up ends.
func TestActionSetNamespaceOfPodIsDeleted(t *testing.T) {
	e := newActionsEnv(t)
	application := *e
	application.env = newEnv(t, e.cluster)
	bindInNamespace(application.env, actions, e.account)
	elsewhere := application.namespace
	e.createConfigMap("goes-kept", map[string]string{"ready": "no"})
	first := e.run(nil)
	e.blueprint("goes", "{task: {phases: ["+strings.ReplaceAll(taskPhase("one", "none"), "$NS", elsewhere)+"], deferPhase: "+createPhase("cleanup")+"}, "+
		"wait: {phases: ["+longPhases["wait"]+"]}}")
	subject := ", blueprint: $ME, object: {kind: Namespace, name: $NS, namespace: $NS}}"
	e.actionSet("goes", "{name: task"+subject, "{name: wait"+subject)
	e.eventually(func() string {
		pods, err := e.kube.CoreV1().Pods(elsewhere).List(t.Context(), metav1.ListOptions{LabelSelector: "createdBy=kanister"})
		if err != nil {
			t.Fatal(err)
		}
		if len(pods.Items) == 0 {
			return "the phase has made no Pod"
		}
		return ""
	})
	application.deleteNamespace()
	if set := e.awaitPhase("goes", "one", v1alpha1.StateFailed); !strings.Contains(set.Status.Error.Message, "the Pod was deleted") {
		t.Errorf("the error is %q", set.Status.Error.Message)
	}
	first.kill()

	var journal faultproxy.Journal
	e.run(&journal)
	e.awaitSet("goes", func(set *v1alpha1.ActionSet) bool {
		return set.Status.Actions[0].DeferPhase.State == v1alpha1.StateComplete
	})
	gets := func(resource string) int {
		return len(journal.Select(func(entry faultproxy.Entry) bool { return entry.Verb == "get" && entry.Resource == resource }))
	}
	e.eventually(func() string {
		if polls := gets("configmaps"); polls < 5 {
			return fmt.Sprintf("the next process has polled the other phase %d times", polls)
		}
		return ""
	})
	if looks := gets("pods"); looks != 1 {
		t.Errorf("the next process has looked for the Pod %d times while the run went on, want once", looks)
	}
	e.patchSet("goes", `{"spec":{"cancel":true}}`)
	e.wantEnd("goes", "failed one=failed defer cleanup=complete long=failed; 0%; Cancelled: spec.cancel is true")
	e.wantCleanUp(e.getSet("goes"))
	if looks := gets("pods"); looks != 2 {
		t.Errorf("it has looked for the Pod %d times in all, want once more at the end", looks)
	}
	if _, err := e.kube.CoreV1().Namespaces().Get(t.Context(), elsewhere, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Namespace %s: got %v", elsewhere, err)
	}
}
