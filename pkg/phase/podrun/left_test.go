// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright.dev/pkg/phase"
)

func TestForeignPodIsNotTouched(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		p, call := c.process(), taskCall(t)
		call.validate(p)
		var intent Intent
		if err := phase.DecodeIntent(call.Intent, &intent); err != nil {
			t.Fatal(err)
		}
		other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: intent.Namespace, Name: intent.Pod, UID: "theirs"}}
		if _, err := c.client.CoreV1().Pods(intent.Namespace).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		found := call.start(p)
		podWantState(t, "the name is taken", found, phase.Failed)
		podWantText(t, "the failure", found.Message, "already exists")
		call.cancel(p)
		podWant(t, "Pods", len(c.pods()), 1)
		podWantState(t, "nothing of ours runs", call.poll(p), phase.Stopped)
	})
}

func TestCancelRemovesPod(t *testing.T) {
	for name, until := range map[string]func(*testing.T, *podCluster, *podProcess, *podTestCall){
		"nothing was made": func(_ *testing.T, _ *podCluster, p *podProcess, call *podTestCall) { call.validate(p) },
		"made, and not recorded": func(_ *testing.T, _ *podCluster, p *podProcess, call *podTestCall) {
			call.validate(p)
			call.start(p)
		},
		"recorded, and held": func(_ *testing.T, _ *podCluster, p *podProcess, call *podTestCall) {
			call.validate(p)
			call.Intent = call.start(p).Intent
		},
		"released": func(_ *testing.T, _ *podCluster, p *podProcess, call *podTestCall) { call.begin(p) },
		"running": func(_ *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
			call.begin(p)
			c.update(podRunning(MainContainer))
			call.poll(p)
		},
		"ended": func(_ *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
			call.begin(p)
			c.update(podExited(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			podBubble(t, func(t *testing.T) {
				c := newPodCluster(t)
				p, call := c.process(), taskCall(t)
				until(t, c, p, call)
				call.cancel(p)
				podWant(t, "Pods left", len(c.pods()), 0)
				podWantState(t, "after it was cancelled", call.poll(p), phase.Stopped)
				if p.wakes(testID) == 0 {
					t.Error("no wake-up when it has stopped")
				}
				call.cancel(p)
				podWant(t, "wake-ups after a second cancel", p.wakes(testID), 0)
				podWant(t, "creations that are remembered", len(p.creates), 0)
				logs := c.count("get", "pods/log")
				time.Sleep(cancelledFor - time.Minute)
				podWant(t, "logs that are read still", c.count("get", "pods/log")-logs, 0)
				podWantState(t, "cancelled twice", call.poll(p), phase.Stopped)
			})
		})
	}
}

func TestPodsInOtherNamespaces(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		p, call := c.process(), taskCall(t)
		call.Args["namespace"] = "elsewhere"
		call.begin(p)
		if p.wakes(testID) == 0 {
			t.Error("the Pod does not lead to its ActionSet")
		}
		pod := c.pods()[0]
		podWant(t, "its namespace", pod.Namespace, "elsewhere")
		podWant(t, "its owners", pod.OwnerReferences, nil)
		podWant(t, "what is found of the ActionSet", p.Found("apps", "backup-x"), []phase.ID{testID})
		podWant(t, "what is found of another", p.Found("elsewhere", "backup-x"), nil)
		if err := p.Remove(t.Context(), testID); err != nil {
			t.Fatal(err)
		}
		podWant(t, "Pods left", len(c.pods()), 0)
	})
}

func TestLeft(t *testing.T) {
	withTask(t, func(t *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
		other := c.process()
		task := other.Get("task")
		before := len(c.client.Actions())
		podWant(t, "seen by a process that watches nothing", task.seen(call.Call), false)
		podWant(t, "requests", len(c.client.Actions())-before, 0)
		left, err := task.Left(t.Context(), call.Call)
		podWant(t, "left", left, true)
		podWant(t, "error", err, nil)
		podWant(t, "seen by the one that watches", p.Get("task").seen(call.Call), true)
		call.cancel(p)
		left, _ = task.Left(t.Context(), call.Call)
		podWant(t, "left in the end", left, false)
	})
}

// Without the right to create a Pod there is usually none to read it either. If a creation has failed otherwise, the Pod may exist.
func TestLeftAfterRefusedCreate(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New("no RoleBinding"))
	for name, test := range map[string]struct {
		creates []error
		known   bool
	}{
		"refused":                {[]error{forbidden}, true},
		"lost, and then refused": {[]error{apierrors.NewInternalError(errors.New("lost")), forbidden}, false},
	} {
		t.Run(name, func(t *testing.T) {
			podBubble(t, func(t *testing.T) {
				c := newPodCluster(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}})
				p, call := c.process(), taskCall(t)
				call.validate(p)
				for _, err := range test.creates {
					c.deny("create pods", err)
					_, _ = p.Get("task").Start(t.Context(), call.Call)
				}
				for _, verb := range []string{"get", "delete"} {
					c.deny(verb+" pods", forbidden)
				}
				left, err := p.Get("task").Left(t.Context(), call.Call)
				podWant(t, "left", left, false)
				podWant(t, "looking succeeds", err == nil, test.known)
				podWant(t, "Cancel succeeds", p.Get("task").Cancel(t.Context(), call.Call) == nil, test.known)
			})
		})
	}
}

// The rights in a namespace are deleted before its Pods. Without rights in a namespace that exists, or may exist, it is not known what is left.
func TestLeftWithoutRights(t *testing.T) {
	namespace := func(status corev1.NamespacePhase) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Status: corev1.NamespaceStatus{Phase: status}}
	}
	deleted := namespace(corev1.NamespaceActive)
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/kept"}
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New("no RoleBinding"))
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		denied    string
		gone      bool
	}{
		"it is gone":             {gone: true},
		"it is terminating":      {namespace: namespace(corev1.NamespaceTerminating), gone: true},
		"it is deleted":          {namespace: deleted, gone: true},
		"it exists":              {namespace: namespace(corev1.NamespaceActive)},
		"it may not be read":     {denied: "get namespaces"},
		"it may not be read now": {namespace: namespace(corev1.NamespaceTerminating), denied: "get namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			podBubble(t, func(t *testing.T) {
				var objects []runtime.Object
				if test.namespace != nil {
					objects = append(objects, test.namespace)
				}
				c := newPodCluster(t, objects...)
				p, call := c.process(), taskCall(t)
				call.Args["namespace"] = "app"
				call.begin(p)
				c.deny(test.denied, forbidden)
				for _, verb := range []string{"get", "delete"} {
					c.deny(verb+" pods", forbidden)
				}
				task := c.process().Get("task")
				left, err := task.Left(t.Context(), call.Call)
				podWant(t, "left", left, false)
				podWant(t, "looking succeeds", err == nil, test.gone)
				podWant(t, "Cancel succeeds", task.Cancel(t.Context(), call.Call) == nil, test.gone)
				podWant(t, "Remove succeeds", p.Remove(t.Context(), testID) == nil, test.gone)
			})
		})
	}
}
