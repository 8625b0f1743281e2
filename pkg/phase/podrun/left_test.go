// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
