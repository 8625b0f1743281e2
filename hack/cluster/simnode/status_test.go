package simnode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func decideAt(pod *corev1.Pod, now time.Time) decision {
	return decide(observed{pod: pod, podIP: "10.244.0.9", hostIP: "127.0.0.1", now: now})
}

func TestAStartedPodShowsWhatAKubeletShows(t *testing.T) {
	pod := newPod()
	status := decideAt(pod, noon).status
	if status.PodIP != "10.244.0.9" || status.PodIPs[0].IP != status.PodIP || status.HostIP != "127.0.0.1" || status.HostIPs[0].IP != status.HostIP {
		t.Errorf("addresses: %+v", status)
	}
	if status.StartTime == nil || !status.StartTime.Time.Equal(noon) || status.ObservedGeneration != 1 {
		t.Errorf("start time %v, observed generation %d", status.StartTime, status.ObservedGeneration)
	}
	for _, conditionType := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		if c := findCondition(status, conditionType); c == nil || c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Time.Equal(noon) {
			t.Errorf("condition %s: %+v", conditionType, c)
		}
	}
	c := status.ContainerStatuses[0]
	if c.Name != "main" || c.Image != "image" || !c.Ready || c.Started == nil || !*c.Started || c.RestartCount != 0 || !c.State.Running.StartedAt.Time.Equal(noon) {
		t.Errorf("container: %+v", c)
	}
}

func TestAPodOnTheHostsNetworkHasItsAddress(t *testing.T) {
	pod := newPod()
	pod.Spec.HostNetwork = true
	if status := decideAt(pod, noon).status; status.PodIP != "127.0.0.1" {
		t.Errorf("got address %s", status.PodIP)
	}
}

func TestStatusOfAnEndedPod(t *testing.T) {
	for code, want := range map[string]struct{ container, pod string }{"0": {"Completed", podCompleted}, "1": {"Error", podFailed}} {
		pod := newPod()
		exits(corev1.RestartPolicyNever, code, "")(pod)
		pod.Status = *decideAt(pod, noon).status
		status := decideAt(pod, noon.Add(time.Second)).status
		ended := status.ContainerStatuses[0].State.Terminated
		if ended.Reason != want.container || !ended.StartedAt.Time.Equal(noon) || !ended.FinishedAt.Time.Equal(noon.Add(time.Second)) {
			t.Errorf("exit code %s: %+v", code, ended)
		}
		if ready := findCondition(status, corev1.PodReady); ready.Status != corev1.ConditionFalse || ready.Reason != want.pod {
			t.Errorf("exit code %s: condition Ready %+v", code, ready)
		}
	}
}

func TestConditionsOfOthersAreKept(t *testing.T) {
	pod := newPod()
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: "example.com/mine", Status: corev1.ConditionTrue},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))},
	}
	status := decideAt(pod, noon).status
	if findCondition(status, "example.com/mine") == nil {
		t.Error("the condition of another client is gone")
	}
	if c := findCondition(status, corev1.PodScheduled); !c.LastTransitionTime.Time.Equal(noon.Add(-time.Hour)) {
		t.Errorf("condition PodScheduled did not change but has a new transition time: %+v", c)
	}
}

func TestDecideDoesNotChangeThePodThatItLooksAt(t *testing.T) {
	pod := newPod()
	exits(corev1.RestartPolicyAlways, "1", "")(pod)
	for now := noon; now.Before(noon.Add(time.Minute)); now = now.Add(5 * time.Second) {
		before := pod.DeepCopy()
		d := decideAt(pod, now)
		if before.String() != pod.String() {
			t.Fatalf("at %v the Pod was changed", now)
		}
		if d.status != nil {
			pod.Status = *d.status
		}
	}
}

func TestScriptsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, annotations := range []map[string]string{
		{ExitCodeAnnotation: ""},
		{ExitCodeAnnotation: "-1"},
		{ExitCodeAnnotation: "256"},
		{RunSecondsAnnotation: "-1"},
		{RunSecondsAnnotation: "NaN"},
		{RunSecondsAnnotation: "+Inf"},
		{TerminationSecondsAnnotation: "1s"},
		{NeverReadyAnnotation: "yes"},
		{prefix + "exitcode": "1"},
		{ContainerLogPrefix + "other": "text"},
		{ContainerExecPrefix + "other": "[]"},
		{ExecAnnotation: "hello"},
		{ExecAnnotation: "[{stout: hello}]"},
		{ExecAnnotation: "[{exitCode: 256}]"},
		{ContainerExecPrefix + "main": "[{seconds: -1}]"},
	} {
		pod := newPod()
		pod.Annotations = annotations
		if s, err := parseScript(pod); err == nil || s != (script{}) {
			t.Errorf("%v: got %+v, %v, want an error and nothing else", annotations, s, err)
		}
	}
}
