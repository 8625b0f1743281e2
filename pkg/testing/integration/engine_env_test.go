// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// engineTest is the label by which the engine of a test finds its CompositeControllers: without it, each would serve those of all tests.
const engineTest = "millwright.dev/test"

// grantEngine does what who installs a CompositeController does, and returns when the engine has the rights. They stay: other tests may
// have come to use them, for all engines have one account. A test of what a missing right leads to takes a resource of its own, and
// tells requests[engine] to expectForbidden.
func (e *env) grantEngine(rules ...rbacv1.PolicyRule) {
	e.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: e.namespace + "-", Labels: map[string]string{"millwright.dev/aggregate-to-engine": "true"}},
		Rules:      rules,
	}
	if _, err := e.kube.RbacV1().ClusterRoles().Create(e.Context(), role, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	account := engine.account(e.T, e.cluster)
	for _, r := range rightsOf(rules) {
		e.cluster.AwaitRight(e, account, r.attributes())
	}
}

// rightsOnParents are those that the engine needs on parents, and rightsOnChildren those on children: as in the samples.
func rightsOnParents(group, resource string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get", "list", "watch", "update"}},
		{APIGroups: []string{group}, Resources: []string{resource + "/status", resource + "/finalizers"}, Verbs: []string{"update"}},
	}
}

func rightsOnChildren(group, resource string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
	}
}
