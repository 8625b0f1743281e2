// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/phase"
)

func TestWaitingForPod(t *testing.T) {
	waits := func(reason, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "container", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
	pending := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waits(reason, message)}
	}
	for name, c := range map[string]struct {
		node   string
		status corev1.PodStatus
		log    string
		want   phase.Waiting
	}{
		"a scheduler has not seen it": {want: phase.Waiting{For: "Pod shop/x to be scheduled"}},
		"no node takes it": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"},
			}},
			want: phase.Waiting{For: "Pod shop/x to be scheduled", Details: "Unschedulable: 0/3 nodes"},
		},
		"the kubelet has not seen it": {node: "n", want: phase.Waiting{For: "Pod shop/x to start on node n"}},
		"its container is made": {
			node: "n", status: pending("ContainerCreating", ""),
			want: phase.Waiting{For: "Pod shop/x to start on node n"},
		},
		"there is no such image": {
			node: "n", status: pending("ErrImagePull", "not found"),
			want: phase.Waiting{For: "container container of Pod shop/x to start (ImagePullBackOff)", Details: "not found"},
		},
		"it is tried again later": {
			node: "n", status: pending("ImagePullBackOff", "back-off"),
			want: phase.Waiting{For: "container container of Pod shop/x to start (ImagePullBackOff)", Details: "back-off"},
		},
		"there is no such Secret": {
			node: "n", status: pending("CreateContainerConfigError", `secret "s" not found`),
			want: phase.Waiting{For: "container container of Pod shop/x to start (CreateContainerConfigError)", Details: `secret "s" not found`},
		},
		"an init container waits": {
			node: "n", status: corev1.PodStatus{
				Phase: corev1.PodPending, InitContainerStatuses: waits("CrashLoopBackOff", "again"), ContainerStatuses: waits("PodInitializing", ""),
			},
			want: phase.Waiting{For: "container container of Pod shop/x to start (CrashLoopBackOff)", Details: "again"},
		},
		"it runs": {node: "n", status: corev1.PodStatus{Phase: corev1.PodRunning}, want: phase.Waiting{For: "Pod shop/x to end"}},
		"it runs, without a log": {
			node: "n", status: corev1.PodStatus{Phase: corev1.PodRunning}, log: "refused",
			want: phase.Waiting{For: "Pod shop/x to end, and for its log, which cannot be read", Details: "refused"},
		},
		"its log is to be read": {
			node: "n", status: corev1.PodStatus{Phase: corev1.PodSucceeded}, log: "refused",
			want: phase.Waiting{For: "the log of container container of Pod shop/x", Details: "refused"},
		},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x"}, Spec: corev1.PodSpec{NodeName: c.node}, Status: c.status}
		podWant(t, name, waitingForPod(pod, "container", c.log), c.want)
	}
}

// A simulated node runs Pods, and has no logs of them.
func TestWaitingShowsUnreadableLog(t *testing.T) {
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
		podWantState(t, "the task", found, phase.Running)
		found = call.poll(p)
		podWantText(t, "what it waits for", found.Waiting.For, "to end, and for its log, which cannot be read")
		podWantText(t, "why", found.Waiting.Details, "the kubelet refuses")
		if p.wakes(testID) == 0 {
			t.Error("no wake-up when the log cannot be read")
		}
	})
}
