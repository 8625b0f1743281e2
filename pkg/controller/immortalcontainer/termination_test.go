// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

func ended(name string, exitCode int32, reason, message string, at int) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: exitCode, Reason: reason, Message: message, FinishedAt: metav1.NewTime(after(at))}}}
}

func TestTermination(t *testing.T) {
	transition := func(conditionType corev1.PodConditionType, at int) corev1.PodCondition {
		return corev1.PodCondition{Type: conditionType, LastTransitionTime: metav1.NewTime(after(at))}
	}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   v1alpha1.Termination
	}{
		"our container has done its work": {
			corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{ended("acontainer", 0, "Completed", "", 5)}},
			v1alpha1.Termination{Reason: "Completed", ExitCode: ptr.To[int32](0), FinishedAt: metav1.NewTime(after(5))},
		},
		"our container failed": {
			corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ended("acontainer", 3, "Error", "no config", 5)}},
			v1alpha1.Termination{Reason: "Error", ExitCode: ptr.To[int32](3), Message: "no config", FinishedAt: metav1.NewTime(after(5))},
		},
		"our container was out of memory": {
			corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ended("acontainer", 137, "OOMKilled", "", 5)}},
			v1alpha1.Termination{Reason: "OOMKilled", ExitCode: ptr.To[int32](137), FinishedAt: metav1.NewTime(after(5))},
		},
		"the Pod was evicted: why is the Pod's, the exit code the container's": {
			corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory",
				ContainerStatuses: []corev1.ContainerStatus{ended("acontainer", 137, "Error", "", 5)}},
			v1alpha1.Termination{Reason: "Evicted", ExitCode: ptr.To[int32](137), Message: "The node was low on memory", FinishedAt: metav1.NewTime(after(5))},
		},
		"its time was over": {
			corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline",
				ContainerStatuses: []corev1.ContainerStatus{ended("acontainer", 143, "Error", "", 5)}},
			v1alpha1.Termination{Reason: "DeadlineExceeded", ExitCode: ptr.To[int32](143),
				Message: "Pod was active on the node longer than the specified deadline", FinishedAt: metav1.NewTime(after(5))},
		},
		"its node was lost: no container has ended, the last transition was the end": {
			corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeLost",
				ContainerStatuses: []corev1.ContainerStatus{{Name: "acontainer", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
				Conditions:        []corev1.PodCondition{transition(corev1.PodReady, 7), transition(corev1.PodScheduled, -50)}},
			v1alpha1.Termination{Reason: "NodeLost", FinishedAt: metav1.NewTime(after(7))},
		},
		"it was never admitted: it ended when it was created": {
			corev1.PodStatus{Phase: corev1.PodFailed, Reason: "UnexpectedAdmissionError", Message: "no devices left"},
			v1alpha1.Termination{Reason: "UnexpectedAdmissionError", Message: "no devices left", FinishedAt: metav1.NewTime(after(-60))},
		},
		"no status at all: the phase is the reason": {
			corev1.PodStatus{Phase: corev1.PodFailed},
			v1alpha1.Termination{Reason: "Failed", FinishedAt: metav1.NewTime(after(-60))},
		},
		"a sidecar failed and ours did not: the sidecar counts": {
			corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
				ended("acontainer", 0, "Completed", "", 5), ended("proxy", 2, "Error", "bad certificate", 9)}},
			v1alpha1.Termination{Reason: "Error", ExitCode: ptr.To[int32](2), Message: "bad certificate", FinishedAt: metav1.NewTime(after(9))},
		},
		"a sidecar failed, and ours never ran": {
			corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "acontainer"}, ended("proxy", 2, "Error", "", 9)}},
			v1alpha1.Termination{Reason: "Error", ExitCode: ptr.To[int32](2), FinishedAt: metav1.NewTime(after(9))},
		},
		"both failed: ours counts, the last to end has the time": {
			corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
				ended("proxy", 2, "Error", "", 9), ended("acontainer", 3, "Error", "mine", 5)}},
			v1alpha1.Termination{Reason: "Error", ExitCode: ptr.To[int32](3), Message: "mine", FinishedAt: metav1.NewTime(after(9))},
		},
		"a sidecar ended well and ours failed: ours counts": {
			corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
				ended("proxy", 0, "Completed", "bye", 4), ended("acontainer", 3, "Error", "", 5)}},
			v1alpha1.Termination{Reason: "Error", ExitCode: ptr.To[int32](3), FinishedAt: metav1.NewTime(after(5))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(1, func(p *corev1.Pod) { p.Status = tc.status })
			tc.want.Pod = "x-immortalpod"
			if diff := cmp.Diff(&tc.want, terminationOf(pod)); diff != "" {
				t.Errorf("termination (-want +got):\n%s", diff)
			}
			if !sameTermination(terminationOf(pod), terminationOf(pod)) {
				t.Error("the same end is not known again")
			}
		})
	}
}

func TestLongTerminationMessage(t *testing.T) {
	pod := podOf(1, podEnded(1, "Error", 0))
	pod.Status.ContainerStatuses[0].State.Terminated.Message = "x" + strings.Repeat("€", 1000)
	got := terminationOf(pod)
	if !utf8.ValidString(got.Message) || len(got.Message) != 1024 {
		t.Errorf("the message has %d bytes, want the 1024 that hold whole characters; valid: %t", len(got.Message), utf8.ValidString(got.Message))
	}
	if !sameTermination(got, terminationOf(pod)) {
		t.Error("the same end is not known again once it is cut")
	}
}

func TestAnyDifferenceMakesAnotherTermination(t *testing.T) {
	base := terminationOf(podOf(1, podEnded(1, "Error", 0)))
	for name, change := range map[string]func(*v1alpha1.Termination){
		"the time":             func(t *v1alpha1.Termination) { t.FinishedAt = metav1.NewTime(after(1)) },
		"the reason":           func(t *v1alpha1.Termination) { t.Reason = "OOMKilled" },
		"the message":          func(t *v1alpha1.Termination) { t.Message = "other" },
		"the exit code":        func(t *v1alpha1.Termination) { t.ExitCode = ptr.To[int32](2) },
		"an unknown exit code": func(t *v1alpha1.Termination) { t.ExitCode = nil },
	} {
		other := base.DeepCopy()
		change(other)
		if sameTermination(base, other) {
			t.Errorf("%s differs, and it is taken for the same end", name)
		}
	}
	if sameTermination(nil, base) || sameTermination(nil, nil) {
		t.Error("no termination is taken for one")
	}
	other := base.DeepCopy()
	other.FinishedAt = metav1.NewTime(base.FinishedAt.In(time.FixedZone("CET", 3600)))
	if !sameTermination(base, other) {
		t.Error("the same time in another zone makes another end")
	}
}

func TestTheWaitDoublesUpToItsLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		backoff v1alpha1.Backoff
		want    map[int32]time.Duration
	}{
		"by default from 10 seconds to 5 minutes": {
			v1alpha1.Backoff{},
			map[int32]time.Duration{
				1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second, 5: 160 * time.Second, 6: 300 * time.Second, 7: 300 * time.Second,
			},
		},
		"as the spec says": {
			v1alpha1.Backoff{InitialSeconds: 3, MaxSeconds: 10},
			map[int32]time.Duration{1: 3 * time.Second, 2: 6 * time.Second, 3: 10 * time.Second, 4: 10 * time.Second},
		},
		"always the same where both are": {
			v1alpha1.Backoff{InitialSeconds: 7, MaxSeconds: 7},
			map[int32]time.Duration{1: 7 * time.Second, 2: 7 * time.Second},
		},
		"never above the limit, also if the first is": {
			v1alpha1.Backoff{InitialSeconds: 600},
			map[int32]time.Duration{1: 300 * time.Second},
		},
		"for ever": {
			v1alpha1.Backoff{InitialSeconds: 1, MaxSeconds: 86400},
			map[int32]time.Duration{17: 65536 * time.Second, 18: 86400 * time.Second, 64: 86400 * time.Second, math.MaxInt32: 86400 * time.Second},
		},
		"with the largest numbers that there are": {
			v1alpha1.Backoff{InitialSeconds: math.MaxInt32 - 1, MaxSeconds: math.MaxInt32},
			map[int32]time.Duration{1: (math.MaxInt32 - 1) * time.Second, 2: math.MaxInt32 * time.Second, 1000: math.MaxInt32 * time.Second},
		},
		"a count that makes no sense waits the first time": {
			v1alpha1.Backoff{},
			map[int32]time.Duration{0: 10 * time.Second, -1: 10 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for terminations, want := range tc.want {
				if got := startDelay(tc.backoff, terminations); got != want {
					t.Errorf("after %d terminations the wait is %v, want %v", terminations, got, want)
				}
			}
		})
	}
}

func TestAPodThatRanForLongStartsTheWaitsAfresh(t *testing.T) {
	for name, tc := range map[string]struct {
		backoff v1alpha1.Backoff
		ran     int
		want    bool
	}{
		"by default ten minutes are long":    {v1alpha1.Backoff{}, 600, true},
		"a second less is not":               {v1alpha1.Backoff{}, 599, false},
		"the spec says what is long":         {v1alpha1.Backoff{ResetAfterSeconds: 60}, 60, true},
		"the spec says what is not":          {v1alpha1.Backoff{ResetAfterSeconds: 60}, 59, false},
		"an end before the beginning is not": {v1alpha1.Backoff{}, -10, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(1, podEnded(1, "Error", tc.ran), func(p *corev1.Pod) {
				p.Status.StartTime = timeAt(noon)
				p.CreationTimestamp = metav1.NewTime(after(-10000)) // it waited for a node: that does not count
			})
			if got := ranLongEnough(pod, tc.backoff); got != tc.want {
				t.Errorf("after %d seconds: %t, want %t", tc.ran, got, tc.want)
			}
		})
	}
	if pod := podOf(1, podEnded(1, "Error", 600)); !ranLongEnough(pod, v1alpha1.Backoff{}) {
		t.Error("a Pod that does not tell when it started is not reckoned from its creation")
	}
}

// A container that always ends after two seconds, watched over ten of its ends.
func TestACrashLoopStartsAtTheExpectedTimes(t *testing.T) {
	container := newContainer(withStatus(running(1)))
	now := noon
	var starts []time.Duration
	for range 10 {
		end := int(now.Sub(noon).Seconds()) + 2
		now = after(end)
		pod := podOf(container.Status.StartTimes, podEnded(1, "Error", end), func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(after(end - 2)) })
		p := decide(observed{container: container, pod: pod, now: now})
		container.Status = p.Steps[0].(writeStatus).status
		now = now.Add(p.RequeueAfter)

		p = decide(observed{container: container, memory: podMemory{seen: startOf(pod), gone: startOf(pod)}, now: now})
		container.Status = p.Steps[0].(writeStatus).status
		if p.Steps[1] != (createPod{startOf(pod) + 1, causeFailed, false}) {
			t.Fatalf("at %v: %q, want start %d", now.Sub(noon), describe(p), startOf(pod)+1)
		}
		starts = append(starts, now.Sub(noon))
	}
	var want []time.Duration
	at := time.Duration(0)
	for _, wait := range []time.Duration{10, 20, 40, 80, 160, 300, 300, 300, 300, 300} {
		at += (2 + wait) * time.Second
		want = append(want, at)
	}
	if diff := cmp.Diff(want, starts); diff != "" {
		t.Errorf("starts after the first (-want +got):\n%s", diff)
	}
}
