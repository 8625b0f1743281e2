// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// For up to 30 seconds after a kind was installed, the API server refuses owner references with blockOwnerDeletion to objects of the kind as
// forbidden, because it reads the list of kinds at that interval. The controllers retry, and record no warnings.
func TestPrivilegesNewKinds(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Start(t, rightsOptions...)
	var journal faultproxy.Journal
	e := newEnv(t, cluster)
	_, kubeconfig := startProxy(t, "operator", operatorAccount(t, cluster).Config, &journal)
	runManagerWith(t, func(options *manager.Options) { options.Kubeconfig = kubeconfig })

	// The API server reads the list of kinds when it needs the first kind. The last kind is installed after that.
	install := func(crd string) { cluster.InstallCRDs(t, "manifests/00-crds/"+crd) }
	install("apps.anupam.com_helloapps.yaml")
	e.createApp(helloApp("web", 1))
	e.awaitApp("web", 1)
	install("immortalcontainers.flugel.it_immortalcontainers.yaml")
	e.create(immortal("web"))
	e.eventually(func() string {
		if len(writesTo(&journal, "pods")) == 0 {
			return "no Pod was requested"
		}
		return ""
	})
	install("useless.container.training_switches.yaml")
	install("useless.container.training_machines.yaml")
	e.createMachine(newMachine("web", 2))
	e.awaitReady("web", 1)
	e.awaitMachine("web", 2)

	refused := journal.Select(func(entry faultproxy.Entry) bool { return entry.Code == http.StatusForbidden })
	t.Logf("the API server refused %d writes", len(refused))
	if len(refused) == 0 {
		t.Error("no write was refused: nothing is tested")
	}
	events, err := e.kube.CoreV1().Events(e.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "type=Warning"})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events.Items {
		t.Errorf("got warning %s of %s %s, want none: %s", event.Reason, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Message)
	}
}

func writesTo(journal *faultproxy.Journal, resource string) []faultproxy.Entry {
	return journal.Select(func(entry faultproxy.Entry) bool {
		return entry.IsWrite() && entry.Resource == resource && entry.Code != 0
	})
}
