// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// The bubbles begin at midnight: a Pod that fails immediately is started again at 00:00:10.
const (
	isReadyFirst   = "status: start 1, seen 1, generation 1, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running"
	createsFirst   = "create Pod x-immortalpod, start 1"
	createsSecond  = "create Pod x-immortalpod, start 2"
	deletesFirst   = "delete Pod x-immortalpod if it is uid-pod-1"
	saysTerminated = `event Warning Terminated "Pod x-immortalpod terminated: Error, exit code 1"`
)

// inBubble runs a test of the controller on an API server with default/x in it.
func inBubble(t *testing.T, test func(t *testing.T, a *apiServer), options ...containerOption) {
	synctest.Test(t, func(t *testing.T) { test(t, newAPIServer(t, newContainer(options...))) })
}

// coldStart is up to the first Pod's being ready.
func coldStart(a *apiServer) (stop func()) {
	stop, _ = a.operate()
	a.t.Helper()
	a.wants("for a new container", reserveFirst, createsFirst, startedFirst)
	a.podBecomes(podReady)
	a.wants("once its Pod is ready", isReadyFirst)
	return stop
}

func TestAColdStartTakesFourRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.operate()
		time.Sleep(3 * time.Second)
		a.podBecomes(func(pod *corev1.Pod) { // what every Pod goes through
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: ContainerName,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
		})
		time.Sleep(3 * time.Second)
		a.podBecomes(podReady)
		time.Sleep(time.Hour)
		a.wants("from nothing to Ready", reserveFirst, createsFirst, isReadyFirst, startedFirst)
	})
}

func TestADeletedPodComesBackInFourRequests(t *testing.T) {
	for name, grace := range map[string]time.Duration{"immediately": 0, "in less than a second": 900 * time.Millisecond} {
		t.Run("when it goes "+name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				coldStart(a)
				a.podIsDeleted()
				time.Sleep(grace)
				a.podGoes()
				synctest.Wait()
				a.podBecomes(podReady)
				time.Sleep(time.Hour)
				a.wants("from the deletion to Ready", reserveNext, createsSecond,
					"status: start 2, seen 2, generation 1, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running",
					startedNext)
			})
		})
	}
}

func TestSlowTerminationTakesFourRequests(t *testing.T) {
	const terminating = "status: start 2, seen 1, generation 1, Pod x-immortalpod Running, Ready=False PodTerminating, Progressing=True WaitingForTermination"
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.podIsDeleted()
		a.wants("at first")
		time.Sleep(20 * time.Second)
		a.wants("after a while", terminating)
		a.podGoes()
		a.wants("once it is gone", createsSecond, startedNext)
		time.Sleep(5 * time.Second)
		a.wants("while the next one starts")
		a.podBecomes(podReady)
		a.wants("once it is Ready", "status: start 2, seen 2, generation 1, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running")
	})
}

func TestSlowStartAfterSlowTermination(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.podIsDeleted()
		time.Sleep(20 * time.Second)
		a.podGoes()
		synctest.Wait()
		a.took()
		time.Sleep(time.Hour)
		a.wants("after a while", "status: start 2, seen 2, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating")
	})
}

func TestFailedPodIsReplacedAfterBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.podFails()
		a.wants("at its end",
			"status: start 1, seen 1, generation 1, Ready=False BackingOff, Progressing=True BackingOff, last Error 1, 1 in a row, next 00:00:10",
			deletesFirst, saysTerminated, `event Normal BackingOff "Next start at 2000-01-01T00:00:10Z, after 1 terminations in a row"`)
		time.Sleep(10*time.Second - time.Nanosecond)
		a.wants("before it is time")
		time.Sleep(time.Nanosecond)
		a.wants("in time",
			"status: start 2, seen 1, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating, last Error 1, 1 in a row",
			createsSecond, startedNext)
		a.podBecomes(podReady)
		time.Sleep(time.Hour)
		a.wants("once it is ready again",
			"status: start 2, seen 2, generation 1, Pod x-immortalpod Running, Ready=True PodReady, Progressing=False Running, last Error 1, 1 in a row")
	})
}

func TestBackoffSurvivesARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := coldStart(a)
		a.podFails()
		synctest.Wait()
		stop()
		time.Sleep(4 * time.Second)
		a.took()
		a.operate()
		a.wants("when it starts")
		time.Sleep(6 * time.Second)
		a.wants("in time", "get Pod x-immortalpod",
			"status: start 2, seen 1, generation 1, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating, last Error 1, 1 in a row",
			createsSecond, startedNext)
	})
}

func TestAnEditedSpecReplacesThePod(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Image = "nginx:2" })
		a.wants("at the edit", isReplacing, deletesFirst, `event Normal Replaced "Deleting Pod x-immortalpod to replace it: the spec has changed"`)
		time.Sleep(20 * time.Second)
		a.wants("while the old one terminates")
		a.podGoes()
		a.wants("once it is gone",
			"status: start 2, seen 1, generation 2, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating",
			createsSecond, startedNext)
		if got := a.pod().Spec.Containers[0].Image; got != "nginx:2" {
			t.Errorf("the new Pod runs %s, want nginx:2", got)
		}
	})
}

func TestSuspendAndResume(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.edit(suspended)
		a.wants("at the suspension",
			"status: start 1, seen 1, generation 2, Pod x-immortalpod Running, Ready=False Suspended, Progressing=False Suspended",
			deletesFirst, `event Normal Suspended "Suspended: no Pod runs until spec.suspend is false"`)
		a.podGoes()
		time.Sleep(time.Hour)
		a.wants("once the Pod is gone", "status: start 1, seen 1, generation 2, Ready=False Suspended, Progressing=False Suspended")
		a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Suspend = false })
		a.wants("when it is resumed",
			"status: start 2, seen 1, generation 3, Pod x-immortalpod Pending, Ready=False PodStarting, Progressing=True Creating",
			createsSecond, startedNext)
	})
}

func TestARestartOfTheOperatorTouchesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := coldStart(a)
		stop()
		uid := a.pod().UID
		a.operate()
		time.Sleep(time.Hour)
		a.wants("of another process")
		if got := a.pod().UID; got != uid {
			t.Errorf("the Pod is %s, want %s still", got, uid)
		}
	})
}

func TestAPodThatWentWhileNoOperatorRanIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := coldStart(a)
		stop()
		a.podIsDeleted()
		a.podGoes()
		a.operate()
		a.wants("of another process", "get Pod x-immortalpod", reserveNext, createsSecond, startedNext)
	})
}

func TestDeletedContainerIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.containers.Remove("default", "x")
		a.wants("once it is gone")
		a.podIsDeleted()
		a.podGoes()
		time.Sleep(time.Hour)
		a.wants("once its Pod is gone")
	})
}

func TestPodOfEarlierContainerIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		a.containers.Remove("default", "x")
		second := newContainer(func(c *v1alpha1.ImmortalContainer) { c.UID = "uid-of-the-second-x" })
		a.containers.Create(second)
		a.wants("when it is created", "status: start 0, seen 0, generation 1, Ready=False WaitingForTermination, Progressing=True WaitingForTermination")
		time.Sleep(10 * time.Minute)
		a.wants("while the Pod is there")
		a.podIsDeleted() // by the garbage collector
		a.podGoes()
		a.wants("once it is gone", reserveFirst, createsFirst, startedFirst)
	})
}

func TestAStrippedLabelIsPutBack(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		coldStart(a)
		uid := a.pod().UID
		a.podBecomes(podUnlabelled)
		a.wants("when it is stripped", "get Pod x-immortalpod",
			`patch Pod x-immortalpod {"metadata":{"labels":{"app.kubernetes.io/managed-by":"millwright","controller-uid":"uid-x"},"uid":"uid-pod-1"}}`)
		time.Sleep(time.Hour)
		a.wants("after that")
		if pod := a.pod(); pod.UID != uid || pod.Labels[controller.LabelManagedBy] != controller.ManagedBy {
			t.Errorf("the Pod is %s with labels %v, want %s with ours", pod.UID, pod.Labels, uid)
		}
	})
}

func TestUnlabelledTerminatingPod(t *testing.T) {
	for name, inOrder := range map[string][]func(a *apiServer){
		"first stripped, then deleted": {func(a *apiServer) { a.podBecomes(podUnlabelled) }, (*apiServer).podIsDeleted},
		"first deleted, then stripped": {(*apiServer).podIsDeleted, func(a *apiServer) { a.podBecomes(podUnlabelled) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				coldStart(a)
				for _, step := range inOrder {
					step(a) // faster than the controller
				}
				time.Sleep(20 * time.Second)
				a.podGoes()
				time.Sleep(time.Minute)
				if pod := a.pod(); pod == nil || pod.DeletionTimestamp != nil {
					t.Fatalf("there is no Pod a minute after the first has gone; the status is: %s", describeStatus(a.container().Status))
				}
				if got := a.container().Status.StartTimes; got != 2 {
					t.Errorf("%d starts are counted, want 2", got)
				}
			})
		})
	}
}

func TestSuspendedUnlabelledPodIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		stop := coldStart(a)
		stop()
		a.podBecomes(podUnlabelled)
		a.edit(suspended)
		a.operate()
		time.Sleep(time.Minute)
		if pod := a.pod(); pod != nil && pod.DeletionTimestamp == nil {
			t.Errorf("a Pod runs on; the status is: %s", describeStatus(a.container().Status))
		}
	})
}
