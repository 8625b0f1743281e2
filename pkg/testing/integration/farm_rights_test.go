// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/testing/faultproxy"
)

// The server needs the right to list if the API server does not support watch lists; see TestPrivilegesListWithoutWatchList.
func TestFarmListsWithoutWatchList(t *testing.T) {
	e := inSharedFarm(t)
	var journal faultproxy.Journal
	proxy, kubeconfig := startProxy(t, "farm", e.farm.account.Config, &journal)
	t.Cleanup(refuseWatchLists(proxy))
	server := startFarmServer(t, kubeconfig, "--serving-secret="+farmNamespace+"/"+servingSecret)
	server.awaitReady(t, e.cluster)
	wanted := sets.New("namespaces", "secrets", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations")
	e.eventually(func() string {
		listed := sets.New[string]()
		for _, entry := range journal.Entries() {
			if entry.Verb == "list" && entry.Code == http.StatusOK {
				listed.Insert(entry.Resource)
			}
		}
		if missing := wanted.Difference(listed); len(missing) > 0 {
			return "resources that were not listed: " + join(missing)
		}
		return ""
	})
	if _, err := server.client(t, e.cluster).FarmV1alpha().Llamas(e.namespace).Create(t.Context(), newLlama("dolly"), metav1.CreateOptions{}); err != nil {
		t.Errorf("create: %v", err)
	}
}
