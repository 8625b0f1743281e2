// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestAccountAndAudit(t *testing.T) {
	t.Parallel()
	type answer struct {
		verb, resource, decision string
		code                     int32
	}
	var got []answer
	administrators := 0
	t.Run("cluster", func(t *testing.T) {
		cluster := Start(t, WithAudit(serviceaccount.MakeUsername("default", "default"), func(event *auditv1.Event) {
			got = append(got, answer{event.Verb, event.ObjectRef.Resource, event.Annotations["authorization.k8s.io/decision"], event.ResponseStatus.Code})
		}), WithAudit("admin", func(*auditv1.Event) { administrators++ }))
		account := cluster.Account(t, "default", "default")
		config, err := clientcmd.BuildConfigFromFlags("", account.WriteKubeconfig(t))
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("got %v without the right, want Forbidden", err)
		}
		cluster.Kubectl(t, "create", "rolebinding", "view", "--clusterrole=view", "--serviceaccount=default:default", "--namespace=default")
		cluster.AwaitRight(t, account, authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "default"})
		if _, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("got %v with the right, want success", err)
		}
	})
	want := []answer{{"list", "pods", "forbid", 403}, {"list", "pods", "allow", 200}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if administrators == 0 {
		t.Error("got no request of the second user of WithAudit, want some")
	}
}
