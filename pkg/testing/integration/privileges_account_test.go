// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	cr "millwright.dev/pkg/apis/cr/v1alpha1"
	farmstorage "millwright.dev/pkg/apis/farmstorage/v1"
	immortalcontainers "millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	metacontroller "millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/testing/testcluster"
)

// deployment is the name of a Deployment of the manifests. Its ServiceAccount and the Lease of its replicas have the same name.
type deployment string

const (
	core    deployment = "millwright-core"
	engine  deployment = "millwright-engine"
	actions deployment = "millwright-actions"
	// farmOperator is the aggregated API server. Its manifests are in a folder of their own.
	farmOperator deployment = "farm-operator"
)

// accountNamespace is the namespace of the ServiceAccounts.
const accountNamespace = "millwright-system"

func (d deployment) namespace() string {
	if d == farmOperator {
		return farmNamespace
	}
	return accountNamespace
}

// manifests returns the pattern of the files that have the Deployment.
func (d deployment) manifests() string {
	if d == farmOperator {
		return farmManifests
	}
	return manifests
}

// user returns the name of the account as the authorizer and the audit log have it.
func (d deployment) user() string { return serviceaccount.MakeUsername(d.namespace(), string(d)) }

// clusterOptions are the options of all clusters. An operator has the rights of the manifests there, and no others.
var clusterOptions = append([]testcluster.Option{testcluster.WithCRDs("manifests/00-crds")}, rightsOptions...)

// rightsManifests installs the shipped namespace, accounts, roles and bindings.
var rightsManifests = testcluster.WithManifests("manifests/10-namespace.yaml",
	"manifests/20-core-account.yaml", "manifests/20-engine-account.yaml", "manifests/20-actions-account.yaml",
	"manifests/21-core-role.yaml", "manifests/21-engine-role.yaml", "manifests/21-actions-role.yaml",
	"manifests/22-users.yaml", "manifests/23-actions-policy.yaml")

// rightsOptions installs the same, and records the requests of the accounts.
var rightsOptions = []testcluster.Option{
	rightsManifests,
	testcluster.WithAudit(core.user(), requests[core].add),
	testcluster.WithAudit(engine.user(), requests[engine].add),
	testcluster.WithAudit(actions.user(), requests[actions].add),
	testcluster.WithAudit(farmOperator.user(), requests[farmOperator].add),
}

// account returns the account that managers and processes of the Deployment run as. Tests and users are administrators.
func (d deployment) account(t testing.TB, cluster *testcluster.Cluster) *testcluster.Account {
	t.Helper()
	account := cluster.Account(t, d.namespace(), string(d))
	own := authorizationv1.ResourceAttributes{Verb: "list", Group: immortalcontainers.GroupName, Resource: "immortalcontainers"}
	switch d {
	case engine:
		own = authorizationv1.ResourceAttributes{Verb: "list", Group: metacontroller.GroupName, Resource: "compositecontrollers"}
	case actions:
		own = authorizationv1.ResourceAttributes{Verb: "list", Group: cr.GroupName, Resource: "actionsets", Namespace: accountNamespace}
	case farmOperator:
		own = authorizationv1.ResourceAttributes{Verb: "list", Group: farmstorage.GroupName, Resource: "llamarecords"}
	}
	cluster.AwaitRight(t, account, own)
	return account
}

// operatorAccount returns the account of the Deployment core.
func operatorAccount(t testing.TB, cluster *testcluster.Cluster) *testcluster.Account {
	t.Helper()
	return core.account(t, cluster)
}

// controllers returns the controllers that the Deployment runs.
func (d deployment) controllers(t testing.TB) []string {
	t.Helper()
	for _, shipped := range readDeployments(t, manifests) {
		if shipped.Name == string(d) {
			for _, arg := range shipped.Spec.Template.Spec.Containers[0].Args {
				if list, ok := strings.CutPrefix(arg, "--controllers="); ok {
					return strings.Split(list, ",")
				}
			}
		}
	}
	t.Fatalf("the Deployment %s of the manifests has no flag --controllers", d)
	return nil
}

// readDeployments returns the Deployments in the files.
func readDeployments(t testing.TB, pattern string) (found []k8sappsv1.Deployment) {
	t.Helper()
	err := eachObject(pattern, func(kind string, document []byte) error {
		if kind != "Deployment" {
			return nil
		}
		return appendTo(&found, document)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// bindInNamespace gives the account the rights in the test's namespace that the shipped RoleBindings give it in its own namespace. Parallel
// tests must not wait for each other's Lease, nor run each other's ActionSets.
func bindInNamespace(e *env, d deployment, account *testcluster.Account) {
	e.Helper()
	shipped := readRights(e.T, d)
	for _, role := range shipped.roles {
		if role.Namespace != accountNamespace {
			continue
		}
		role = rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Rules: role.Rules}
		if _, err := e.kube.RbacV1().Roles(e.namespace).Create(e.Context(), &role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			e.Fatal(err)
		}
	}
	for _, binding := range shipped.roleBindings {
		if binding.Namespace != accountNamespace {
			continue
		}
		binding = rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: binding.Name}, RoleRef: binding.RoleRef, Subjects: binding.Subjects}
		e.createRoleBinding(&binding)
	}
	if d == actions { // as the guide describes
		binding := rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: applicationRole},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: applicationRole},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: accountNamespace, Name: string(actions)}},
		}
		e.createRoleBinding(&binding)
	}
	bound := []authorizationv1.ResourceAttributes{{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: string(d)}}
	if d == actions {
		bound = append(bound, authorizationv1.ResourceAttributes{Verb: "list", Group: cr.GroupName, Resource: "actionsets"},
			authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: "exec"})
	}
	for _, r := range bound {
		r.Namespace = e.namespace
		e.cluster.AwaitRight(e, account, r)
	}
}

func (e *env) createRoleBinding(binding *rbacv1.RoleBinding) {
	e.Helper()
	_, err := e.kube.RbacV1().RoleBindings(e.namespace).Create(e.Context(), binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		e.Fatal(err)
	}
}
