// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/phase"
)

func TestTaskSucceeds(t *testing.T) {
	withTask(t, func(t *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
		podWant(t, "Pods that were released", c.ran, []types.UID{"uid-1"})
		c.print(MainContainer, "hello\n"+`###Phase-output###:{"key":"a","value":"1"}`+"\n"+`###Phase-output###:{"key":"a","value":"2"}`+"\n")
		c.update(podRunning(MainContainer))
		if p.wakes(testID) == 0 {
			t.Error("no wake-up when the Pod runs")
		}
		found := call.poll(p)
		podWantState(t, "while it runs", found, phase.Running)
		if found.PollAfter < time.Minute {
			t.Errorf("a Pod that is watched is polled every %s", found.PollAfter)
		}
		gets := c.count("get", "pods")
		c.update(podExited(0))
		if p.wakes(testID) == 0 {
			t.Error("no wake-up when the Pod has ended")
		}
		call.poll(p) // its log is read to the end only now
		if p.wakes(testID) == 0 {
			t.Error("no wake-up when the log is read")
		}
		podWant(t, "the end", call.poll(p), phase.Observation{State: phase.Succeeded, Output: map[string]any{"a": "2"}})
		podWant(t, "Pods read in addition to the watch", c.count("get", "pods"), gets)
		if logged := p.log(); strings.Contains(logged, "Phase-output") || strings.Contains(logged, "hello") {
			t.Error("outputs are logged")
		}
		call.cancel(p)
		podWant(t, "Pods left", len(c.pods()), 0)
	})
}

// Another client has created a Pod with the name and the labels before, to have its output reported.
func TestForgedPodIsNotThePhases(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		call := taskCall(t)
		p := c.process()
		call.validate(p)
		intent, err := ReadIntent(call.Call)
		if err != nil || intent.Nonce == "" {
			t.Fatalf("the intent is %+v, %v", intent, err)
		}
		forger := taskCall(t)
		forger.begin(c.process()) // with all that can be computed, and a nonce of its own
		found := call.start(p)
		podWant(t, "the start", found, phase.Observation{State: phase.Failed, Message: fmt.Sprintf("pods %q already exists", intent.Pod)})
		podWantState(t, "the next poll", call.poll(p), phase.Failed)
		synctest.Wait() // the watch shows the Pod
		podWantState(t, "the poll while it is watched", call.poll(p), phase.Failed)
		left, err := p.Get("task").Left(t.Context(), call.Call)
		podWant(t, "left", left, false)
		podWant(t, "error", err, nil)
		other := c.process() // which has no watch
		left, _ = other.Get("task").Left(t.Context(), call.Call)
		podWant(t, "left, to another process", left, false)
		call.cancel(other)
		podWant(t, "Pods that are left", len(c.pods()), 1)
	})
}

// Another process, which watches Pods, finds the Pod whose UID was not recorded.
func TestUnrecordedPodInTheWatch(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		call := taskCall(t)
		call.validate(c.process())
		podWantState(t, "the first start", call.start(c.process()), phase.Ready)
		p := c.process()
		p.watches.use("apps", "apps")
		synctest.Wait()
		gets := c.count("get", "pods")
		podWantState(t, "the poll", call.poll(p), phase.Ready)
		podWant(t, "Pods read in addition to the watch", c.count("get", "pods"), gets)
	})
}

// An earlier release of the operator has recorded no nonce.
func TestPodOfEarlierRelease(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		call := taskCall(t)
		p := c.process()
		call.validate(p)
		delete(call.Intent, "nonce")
		podWantState(t, "the first start", call.start(p), phase.Ready)
		podWantState(t, "once more, in another process", call.start(c.process()), phase.Ready)
		pod := c.pods()[0]
		if _, has := pod.Annotations[phase.AnnotationNonce]; has {
			t.Errorf("the annotations are %v", pod.Annotations)
		}
	})
}

func TestConcurrentStartsRunOnePod(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		old, late := c.process(), taskCall(t)
		late.validate(old)
		call := taskCall(t)
		call.Intent = late.Intent
		call.begin(c.process())
		// What the old process asks for, with what it knows of the status, arrives now.
		podWantState(t, "a start that arrives late", late.start(old), phase.Ready)
		podWant(t, "Pods that were released", c.ran, []types.UID{"uid-1"})
		podWant(t, "Pods", len(c.pods()), 1)

		// And once more after the phase has ended and its Pod is removed.
		next := c.process()
		call.cancel(next)
		found := late.start(old)
		podWantState(t, "a start that arrives after the end", found, phase.Ready)
		podWant(t, "Pods that were released", c.ran, []types.UID{"uid-1"})
		if pods := c.pods(); len(pods) != 1 || !gated(&pods[0]) {
			t.Errorf("what a late start makes does something: %v", pods)
		}
		podWantState(t, "the recorded Pod", call.start(old), phase.Failed)
		left, err := next.Get("task").Left(t.Context(), call.Call)
		if err != nil || !left {
			t.Errorf("what it has made is not seen: %v (%v)", left, err)
		}
		call.cancel(next)
		podWant(t, "Pods left", len(c.pods()), 0)
	})
}

func TestLostStartIsContinued(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		old, call := c.process(), taskCall(t)
		call.validate(old)
		call.start(old)
		old.stop()

		next := c.process()
		podWantState(t, "nothing is known of the Pod", call.poll(next), phase.Idle)
		found := call.start(next)
		podWantState(t, "the Pod is there", found, phase.Ready)
		call.Intent = found.Intent
		podWantState(t, "it is recorded, and held", call.poll(next), phase.Idle)
		podWantState(t, "it goes", call.start(next), phase.Running)
		podWantState(t, "a start once more", call.start(next), phase.Running)
		podWant(t, "Pods that were released", c.ran, []types.UID{"uid-1"})

		c.print(MainContainer, `###Phase-output###:{"key":"a","value":"1"}`)
		c.update(podRunning(MainContainer))
		call.poll(next)
		next.stop()
		c.update(podExited(0))
		podWant(t, "the third process reads the log from its start", call.finish(c.process()),
			phase.Observation{State: phase.Succeeded, Output: map[string]any{"a": "1"}})
	})
}

func TestDeletedPodFails(t *testing.T) {
	withTask(t, func(t *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
		c.update(podRunning(MainContainer))
		call.poll(p)
		pod := c.pods()[0]
		c.delete(&pod)
		if p.wakes(testID) == 0 {
			t.Error("no wake-up when the Pod was deleted")
		}
		found := call.poll(p)
		podWantState(t, "the Pod is gone", found, phase.Failed)
		podWantText(t, "the failure", found.Message, `{"pod":"`+pod.Name+`"}: `, "deleted")
	})
}

// A shell that gets SIGTERM may exit with 0.
func TestPodDeletedWhileRunningFails(t *testing.T) {
	withTask(t, func(t *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
		grace := int64(30)
		c.update(func(pod *corev1.Pod) {
			podExited(0)(pod)
			asked := metav1.NewTime(time.Now().Add(29 * time.Second))
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &asked, &grace
			pod.Finalizers = []string{"test/held"}
		})
		found := call.finish(p)
		podWantState(t, "the Pod was deleted while it ran", found, phase.Failed)
		podWantText(t, "the failure", found.Message, "deleted while it ran")
	})
}

func TestPodRemovedAfterSuccess(t *testing.T) {
	withTask(t, func(t *testing.T, c *podCluster, p *podProcess, call *podTestCall) {
		c.print(MainContainer, `###Phase-output###:{"key":"a","value":"1"}`)
		c.update(podExited(0))
		call.poll(p)
		pod := c.pods()[0]
		c.delete(&pod)
		p.wakes(testID)
		podWant(t, "the end", call.finish(p), phase.Observation{State: phase.Succeeded, Output: map[string]any{"a": "1"}})
	})
}

func TestAPIErrorsEndNoPhase(t *testing.T) {
	outage := apierrors.NewInternalError(errors.New("etcd"))
	for verb, step := range map[string]func(context.Context, *podProcess, *podTestCall) error{
		"create": func(ctx context.Context, p *podProcess, call *podTestCall) error {
			_, err := p.Get("task").Start(ctx, call.Call)
			return err
		},
		"patch": func(ctx context.Context, p *podProcess, call *podTestCall) error {
			call.Intent = call.start(p).Intent
			_, err := p.Get("task").Start(ctx, call.Call)
			return err
		},
		"get": func(ctx context.Context, p *podProcess, call *podTestCall) error {
			call.Intent["uid"] = "elsewhere"
			_, err := p.Get("task").Poll(ctx, call.Call)
			return err
		},
		"delete": func(ctx context.Context, p *podProcess, call *podTestCall) error {
			call.Intent = call.start(p).Intent
			return p.Get("task").Cancel(ctx, call.Call)
		},
	} {
		t.Run(verb, func(t *testing.T) {
			podBubble(t, func(t *testing.T) {
				c := newPodCluster(t)
				p, call := c.process(), taskCall(t)
				call.validate(p)
				c.deny(verb+" pods", outage)
				err := step(t.Context(), p, call)
				if _, ended := phase.FailureOf(err); err == nil || ended {
					t.Errorf("an outage is %v, want an error that ends no phase", err)
				}
				c.deny(verb+" pods", nil)
			})
		})
	}
}

func TestMissingNamespaceFails(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		c.deny("create pods", apierrors.NewNotFound(corev1.Resource("namespaces"), "no-such-ns"))
		p, call := c.process(), taskCall(t)
		call.validate(p)
		podWant(t, "the start", call.start(p), phase.Observation{State: phase.Failed, Message: `namespaces "no-such-ns" not found`})
	})
}
