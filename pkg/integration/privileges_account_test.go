// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	immortalcontainers "millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/testcluster"
)

// What the Deployment runs as, and the Lease that its replicas share: 20-core-account.yaml and 30-core.yaml say so.
const (
	accountNamespace = "millwright-system"
	accountName      = "millwright-core"
	leaseName        = "millwright-core"
)

// operatorUser is the account for the authorizer and in the audit log.
var operatorUser = serviceaccount.MakeUsername(accountNamespace, accountName)

// clusterOptions are those of all clusters: an operator has there what it has where the manifests were applied, and no more.
var clusterOptions = []testcluster.Option{
	testcluster.WithCRDs("manifests/00-crds"),
	testcluster.WithManifests(rightsManifests...),
	testcluster.WithAudit(operatorUser, requests.add),
}

// rightsManifests are the shipped namespace, account, roles and bindings.
var rightsManifests = []string{"manifests/10-namespace.yaml", "manifests/20-core-account.yaml", "manifests/21-core-role.yaml"}

// operatorAccount is what every manager and every process of these tests runs as. Tests and users are administrators.
func operatorAccount(t testing.TB, cluster *testcluster.Cluster) *testcluster.Account {
	t.Helper()
	account := cluster.Account(t, accountNamespace, accountName)
	cluster.AwaitRight(t, account, authorizationv1.ResourceAttributes{Verb: "list", Group: immortalcontainers.GroupName, Resource: "immortalcontainers"})
	return account
}

// bindLeaderElection gives the account in the test's namespace what the shipped Role gives it in its own: tests that run at the same
// time must not wait for each other's Lease.
func bindLeaderElection(e *env, account *testcluster.Account) {
	e.Helper()
	shipped := readRights(e.T)
	for _, role := range shipped.roles {
		role = rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Rules: role.Rules}
		if _, err := e.kube.RbacV1().Roles(e.namespace).Create(e.Context(), &role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			e.Fatal(err)
		}
	}
	for _, binding := range shipped.roleBindings {
		binding = rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: binding.Name}, RoleRef: binding.RoleRef, Subjects: binding.Subjects}
		if _, err := e.kube.RbacV1().RoleBindings(e.namespace).Create(e.Context(), &binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			e.Fatal(err)
		}
	}
	e.cluster.AwaitRight(e, account, authorizationv1.ResourceAttributes{
		Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: e.namespace, Name: leaseName,
	})
}
