// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatAPodIsWaitedForTo(t *testing.T) {
	waits := func(reason, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "container", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
	for name, c := range map[string]struct {
		node   string
		status corev1.PodStatus
		log    string
		want   Waiting
	}{
		"a scheduler has not seen it": {want: Waiting{For: "Pod shop/x to be scheduled"}},
		"no node takes it": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}},
			want:   Waiting{"Pod shop/x to be scheduled", "Unschedulable: 0/3 nodes"},
		},
		"the kubelet has not seen it": {node: "n", want: Waiting{For: "Pod shop/x to start on node n"}},
		"its container is made":       {node: "n", status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waits("ContainerCreating", "")}, want: Waiting{For: "Pod shop/x to start on node n"}},
		"there is no such image":      {node: "n", status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waits("ErrImagePull", "not found")}, want: Waiting{"container container of Pod shop/x to start (ImagePullBackOff)", "not found"}},
		"it is tried again later":     {node: "n", status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waits("ImagePullBackOff", "back-off")}, want: Waiting{"container container of Pod shop/x to start (ImagePullBackOff)", "back-off"}},
		"there is no such Secret":     {node: "n", status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waits("CreateContainerConfigError", `secret "s" not found`)}, want: Waiting{"container container of Pod shop/x to start (CreateContainerConfigError)", `secret "s" not found`}},
		"an init container waits":     {node: "n", status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: waits("CrashLoopBackOff", "again"), ContainerStatuses: waits("PodInitializing", "")}, want: Waiting{"container container of Pod shop/x to start (CrashLoopBackOff)", "again"}},
		"it runs":                     {node: "n", status: corev1.PodStatus{Phase: corev1.PodRunning}, want: Waiting{For: "Pod shop/x to end"}},
		"it runs, without a log":      {node: "n", status: corev1.PodStatus{Phase: corev1.PodRunning}, log: "refused", want: Waiting{"Pod shop/x to end, and for its log, which cannot be read", "refused"}},
		"its log is to be read":       {node: "n", status: corev1.PodStatus{Phase: corev1.PodSucceeded}, log: "refused", want: Waiting{"the log of container container of Pod shop/x", "refused"}},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x"}, Spec: corev1.PodSpec{NodeName: c.node}, Status: c.status}
		podWant(t, name, waitingForPod(pod, "container", c.log), c.want)
	}
}

// A simulated node runs Pods, and has no logs of them.
func TestATaskWhoseLogIsRefusedSaysSoWhileItRuns(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		p := c.process()
		call := taskCall(t)
		call.begin(p)
		c.mu.Lock()
		c.logErr = apierrors.NewGenericServerResponse(http.StatusInternalServerError, "get", corev1.Resource("pods/log"), "x", "the kubelet refuses", 0, true)
		c.mu.Unlock()
		c.deny("get pods/log", c.logErr)
		p.wakes(testID)
		c.update(func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
		c.update(podRunning("container"))
		found := call.poll(p)
		podWantState(t, "the task", found, Running)
		found = call.poll(p)
		podWantText(t, "what it waits for", found.Waiting.For, "to end, and for its log, which cannot be read")
		podWantText(t, "why", found.Waiting.Details, "the kubelet refuses")
		if p.wakes(testID) == 0 {
			t.Error("nobody is woken to say so")
		}
	})
}

func TestACommandSaysWhetherItHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isThere atomic.Bool
		run := make(chan struct{})
		node := &fakeExec{do: func(ctx context.Context, _ container, _ []string, _, _ io.Writer) error {
			if !isThere.Load() {
				return notStartedError{errors.New("the kubelet is away")}
			}
			ctx.Value(openedKey{}).(func())()
			<-run
			return nil
		}}
		p := newExecProcess(t, node)
		call := execCall(KubeExec{p.commands}, t, oneExec())
		observed := startAndEnd(t, KubeExec{p.commands}, call)
		podWant(t, "before it begins", observed.Waiting, Waiting{"a stream to Pod db/pg-0, so that the command can begin", "the kubelet is away"})
		isThere.Store(true)
		time.Sleep(beginDelay)
		synctest.Wait()
		if observed, _ = p.Poll(t.Context(), call); observed.State != Running {
			t.Errorf("it is %s", observed.State)
		}
		podWant(t, "when it has begun", observed.Waiting, Waiting{For: "the command in Pod db/pg-0 to end"})
		if len(p.woken) != 2 {
			t.Errorf("%d times somebody was woken to say so", len(p.woken))
		}
		close(run)
	})
}

func TestCommandsInSeveralContainersSayWhichHasNotBegun(t *testing.T) {
	of := &command{in: []container{{"db", "a", "c"}, {"db", "b", "c"}}, unopened: map[int]string{1: "away"}}
	podWant(t, "one is away", of.waiting(), Waiting{"a stream to container c of Pod db/b, so that the command can begin", "away"})
	delete(of.unopened, 1)
	podWant(t, "none is", of.waiting(), Waiting{For: "the command in 2 containers to end"})
}
