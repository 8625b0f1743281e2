// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// A Deployment that another client changes again and again is restored ever more rarely.
func TestHelloAppContested(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testcluster.Shared(t))
	var journal faultproxy.Journal
	runHelloApps(e, &journal)
	e.createApp(helloApp("web", 0))
	e.awaitApp("web", 0)
	applies := func() (n int) {
		for _, entry := range journal.Entries() {
			if entry.Resource == "deployments" && entry.Namespace == e.namespace && entry.TookEffect() {
				n++
			}
		}
		return n
	}
	before := applies()
	const rounds = controller.FreeRewrites + 2
	for round := range rounds {
		e.patchDeployment("web", fmt.Sprintf(`{"spec":{"replicas":0,"template":{"spec":{"containers":[{"name":"web","image":"theirs:%d"}]}}}}`, round))
		e.eventually(func() string {
			if image := e.deployment("web").Spec.Template.Spec.Containers[0].Image; image != "nginx:latest" {
				return "image of the Deployment: " + image
			}
			return ""
		})
	}
	e.awaitAppCondition("web", v1.ConditionReady, metav1.ConditionFalse, v1.ReasonContested)
	contested := 0
	for _, event := range e.appEvents("web") {
		if event.Reason == "Contested" && strings.Contains(event.Message, "Deployment web") {
			contested += int(max(event.Count, 1))
		}
	}
	if restored := applies() - before; restored != rounds || contested != 1 {
		t.Errorf("after %d changes: got %d restores and %d events, want one restore each and one event", rounds, restored, contested)
	}
	// An edit of the HelloApp ends the backoff.
	e.patchDeployment("web", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"theirs"}]}}}}`)
	e.patchApp("web", `{"spec":{"image":"nginx:1.29"}}`)
	e.eventually(func() string {
		if image := e.deployment("web").Spec.Template.Spec.Containers[0].Image; image != "nginx:1.29" {
			return "image of the Deployment: " + image
		}
		return ""
	})
	e.awaitApp("web", 0)
}
