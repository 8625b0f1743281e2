// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/phase"
)

// Of a large Pod little is in memory, while it runs and after its end.
func TestLargePods(t *testing.T) {
	podBubble(t, func(t *testing.T) {
		c := newPodCluster(t)
		large := strings.Repeat("x", 500_000)
		p, call := c.process(), newPodTestCall(t, "task", map[string]any{"image": "tools", "command": []any{"sh", "-c", large}})
		call.begin(p)
		intent, err := ReadIntent(call.Call)
		if err != nil {
			t.Fatal(err)
		}
		little := func(when string, pod *corev1.Pod) {
			t.Helper()
			text, err := json.Marshal(pod)
			if err != nil || pod == nil || len(text) > 4<<10 {
				t.Errorf("%s: %d bytes are held, error %v", when, len(text), err)
			}
		}
		c.update(func(pod *corev1.Pod) {
			pod.Labels["large"], pod.Annotations["large"] = large, large
			podRunning(MainContainer)(pod)
		})
		podWantState(t, "while it runs", call.poll(p), phase.Running)
		pod, _ := p.watches.get(intent, "ops")
		little("while it runs", pod)
		c.update(podExited(0))
		podWantState(t, "the end", call.finish(p), phase.Succeeded)
		little("after its end", p.endedPod(p.run(call.ID, intent.UID)))
	})
}

// Of a Pod with hundreds of containers, and of long texts in its status, little is in memory. What explains a failure is kept.
func TestPodsWithManyContainers(t *testing.T) {
	const many = 500
	long := strings.Repeat("x", 4000)
	pod := &corev1.Pod{Status: corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: "Evicted", Message: long,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Message: long}, {Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "Preempted", Message: long},
		},
	}}
	for i := range many {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: fmt.Sprint("c", i), Image: long, ImageID: long, ContainerID: long, RestartCount: 3,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(i), Reason: "Error", Message: long, ContainerID: long}},
		})
	}
	again := corev1.ContainerStatus{Name: "again", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	again.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Message: long}
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, again)
	kept := trimmed(pod)
	if !containerBegan(kept, "again") {
		t.Error("a container that is started again has never begun")
	}
	text, err := json.Marshal(kept)
	if err != nil || len(text) > many*300 {
		t.Errorf("%d bytes are kept, error %v", len(text), err)
	}
	got := whyFailed(kept)
	for _, want := range []string{"Evicted: xx", "Preempted: xx", "container c1 exited with code 1: xx", "; container c499 exited with code 499"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in why it has failed: %.3000s", want, got)
		}
	}
	if again := trimmed(kept); whyFailed(again) != got {
		t.Errorf("it is trimmed again, and why it has failed becomes %.3000s", whyFailed(again))
	}
}
