// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// engineTest is the label by which the engine of a test selects its CompositeControllers. Without it each engine would serve those of all
// tests.
const engineTest = "millwright.dev/test"

// grantEngine grants rights to the engine, as a user does who installs a CompositeController, and waits until they take effect. They are
// not removed, because other tests may use them: all engines have one account. A test of a missing right uses a resource of its own, and
// calls requests[engine].expectForbidden.
func (e *env) grantEngine(rules ...rbacv1.PolicyRule) {
	e.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: e.namespace + "-", Labels: map[string]string{"millwright.dev/aggregate-to-engine": "true"}},
		Rules:      rules,
	}
	if _, err := e.kube.RbacV1().ClusterRoles().Create(e.Context(), role, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.awaitRights(rules)
}

// grantEngineIn gives the engine a Role in a namespace with one rule, and waits until it takes effect.
func (e *engineEnv) grantEngineIn(namespace string, rule rbacv1.PolicyRule) {
	e.Helper()
	name := metav1.ObjectMeta{Name: "engine"}
	role := &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{rule}}
	if _, err := e.kube.RbacV1().Roles(namespace).Create(e.Context(), role, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: accountNamespace, Name: string(engine)}},
	}
	if _, err := e.kube.RbacV1().RoleBindings(namespace).Create(e.Context(), binding, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	for _, r := range rightsOf([]rbacv1.PolicyRule{rule}) {
		there := r.attributes()
		there.Namespace = namespace
		if len(rule.ResourceNames) > 0 {
			there.Name = rule.ResourceNames[0]
		}
		e.cluster.AwaitRight(e, engine.account(e.T, e.cluster), there)
	}
}

// awaitRights waits until rights of a new role take effect: the API server adds them to the role of the engine with a delay.
func (e *env) awaitRights(rules []rbacv1.PolicyRule) {
	e.Helper()
	account := engine.account(e.T, e.cluster)
	for _, r := range rightsOf(rules) {
		e.cluster.AwaitRight(e, account, r.attributes())
	}
}

// rightsOnParents returns the rights that the engine needs on parents, and rightsOnChildren those on children, as in the samples.
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

// rightsOnTargets returns the rights that the engine needs on the targets of a DecoratorController.
func rightsOnTargets(group, resource string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get", "list", "watch", "patch"}},
	}
}

// rightToOwn returns the right that the engine needs on targets that have attachments.
func rightToOwn(group, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource + "/finalizers"}, Verbs: []string{"update"}}
}
