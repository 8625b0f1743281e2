// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cr "millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/manager"
)

// newActionsMemoryEnv returns an environment for a memory test. The client is that of an author: a user who has the role for ActionSets and Blueprints in
// the namespace, and no other rights.
func newActionsMemoryEnv(t *testing.T) *actionsEnv {
	t.Helper()
	onlyAsMemoryTest(t)
	e := newActionsEnv(t)
	const name = "author"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := e.kube.CoreV1().ServiceAccounts(e.namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.createRoleBinding(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: manager.ActionsEditRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: e.namespace, Name: name}},
	})
	author := e.cluster.Account(t, e.namespace, name)
	e.cluster.AwaitRight(t, author, authorizationv1.ResourceAttributes{Verb: "create", Group: cr.GroupName, Resource: "actionsets", Namespace: e.namespace})
	client, err := versioned.NewForConfig(author.Config)
	if err != nil {
		t.Fatal(err)
	}
	e.client = client
	return e
}

// startLimitedActions starts a process with the controller of ActionSets and the memory limit of its Deployment, and waits until it works.
func (e *actionsEnv) startLimitedActions() *limitedProcess {
	e.Helper()
	return e.startActionsLimitedTo(100)
}

// startActionsLimitedTo is startLimitedActions with a part of that memory limit, in percent.
func (e *actionsEnv) startActionsLimitedTo(percent int64) *limitedProcess {
	e.Helper()
	p := startLimitedTo(e.T, actions, percent, "controllers", "--kubeconfig", e.account.WriteKubeconfig(e.T), "--controllers", strings.Join(actions.controllers(e.T), ","),
		"--namespace", e.namespace, "--leader-elect=false", "--serving-address=")
	e.eventually(func() string {
		if !strings.Contains(p.log.String(), `"Started"`) {
			return p.mustRun(e.T) + "the controller has not started"
		}
		return ""
	})
	return p
}
