// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

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

// honestRun runs an ActionSet with one KubeTask to its end. It returns how long that takes.
func (e *actionsEnv) honestRun(name string) time.Duration {
	e.Helper()
	began := time.Now()
	e.startRun(name, "  phases: ["+taskPhase("one", "quick")+"]\n")
	e.wantEnd(name, "complete one=complete; 100%")
	return time.Since(began)
}

// honestTimes are how long small ActionSets take, and as many times honestReads requests of a client that does not need the operator.
type honestTimes struct{ runs, requests time.Duration }

// honestReads is about how many requests such an ActionSet takes.
const honestReads = 18

// honestRuns measures both in turn. The ActionSets are in the namespace of the others, so that no share of a namespace helps them.
func (e *actionsEnv) honestRuns(name string) (times honestTimes) {
	e.Helper()
	for i := range 10 {
		times.runs += e.honestRun(fmt.Sprintf("%s-%d", name, i))
		began := time.Now()
		for range honestReads {
			if _, err := e.kube.CoreV1().Namespaces().Get(e.Context(), e.namespace, metav1.GetOptions{}); err != nil {
				e.Fatal(err)
			}
		}
		times.requests += time.Since(began)
	}
	return times
}

// wantUndelayed checks that such ActionSets take little longer than usual while the others begin, in the fastest of three measurements. In each of them they
// may be delayed as much as the requests of a client that does not need the operator: the garbage collector of the API server may take both CPUs of a
// small machine for a second or two.
func (e *actionsEnv) wantUndelayed(usual honestTimes) {
	e.Helper()
	const most, noise = 2.5, 1.5
	fastest := math.Inf(1)
	for turn := range 3 {
		now := e.honestRuns(fmt.Sprint("busy-", turn))
		runs, requests := now.runs.Seconds()/usual.runs.Seconds(), now.requests.Seconds()/usual.requests.Seconds()
		result := fmt.Sprintf("while others begin, ten small ActionSets take %s, %.1f times as long as usual, and their number of requests %s, %.1f times as long",
			now.runs, runs, now.requests, requests)
		if runs > max(most, noise*requests) {
			e.Error(result)
		} else {
			e.Log(result)
		}
		fastest = min(fastest, runs)
	}
	if fastest > most {
		e.Errorf("while others begin, small ActionSets take at least %.1f times as long as usual, want %.1f times", fastest, most)
	}
}

// awaitUsual waits until such ActionSets take about their usual time, while the others run.
func (e *actionsEnv) awaitUsual(usual honestTimes) {
	e.Helper()
	turn := 0
	e.eventually(func() string {
		turn++
		now := e.honestRuns(fmt.Sprint("steady-", turn))
		result := fmt.Sprintf("while others run, ten small ActionSets take %s, %.1f times as long as usual", now.runs, now.runs.Seconds()/usual.runs.Seconds())
		if now.runs > 2*usual.runs {
			return result
		}
		e.Log(result)
		return ""
	})
}
