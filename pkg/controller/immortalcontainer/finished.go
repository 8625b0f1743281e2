// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// finished reports whether the Pod has ended and will not run again.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// terminationOf returns how a finished Pod ended. It depends only on the Pod, so that a termination that was already recorded is
// recognized.
func terminationOf(pod *corev1.Pod) *v1alpha1.Termination {
	termination := &v1alpha1.Termination{
		Reason:     pod.Status.Reason, // set where the Pod was ended from outside: Evicted, NodeLost, DeadlineExceeded
		Message:    pod.Status.Message,
		FinishedAt: finishedAt(pod),
		Pod:        pod.Name,
	}
	if state := decisiveTermination(pod); state != nil {
		termination.ExitCode = ptr.To(state.ExitCode)
		if termination.Reason == "" {
			termination.Reason = state.Reason
		}
		if termination.Message == "" {
			termination.Message = state.Message
		}
	}
	if termination.Reason == "" {
		termination.Reason = string(pod.Status.Phase)
	}
	termination.Message = controller.Truncate(termination.Message, maxTerminationMessage)
	return termination
}

// decisiveTermination is the end of our container, or that of a sidecar which failed while ours did not.
func decisiveTermination(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	var own, failed *corev1.ContainerStateTerminated
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		terminated := status.State.Terminated
		switch {
		case terminated == nil:
		case status.Name == ContainerName:
			own = terminated
		case terminated.ExitCode != 0 && failed == nil:
			failed = terminated
		}
	}
	if failed != nil && (own == nil || own.ExitCode == 0) {
		return failed
	}
	return own
}

// finishedAt returns when the last container ended. If no container has ended (the Pod was never admitted, or its node is lost), it
// returns the Pod's last transition.
func finishedAt(pod *corev1.Pod) metav1.Time {
	var last metav1.Time
	for i := range pod.Status.ContainerStatuses {
		if terminated := pod.Status.ContainerStatuses[i].State.Terminated; terminated != nil && last.Before(&terminated.FinishedAt) {
			last = terminated.FinishedAt
		}
	}
	if !last.IsZero() {
		return last
	}
	last = pod.CreationTimestamp
	for i := range pod.Status.Conditions {
		if transition := pod.Status.Conditions[i].LastTransitionTime; last.Before(&transition) {
			last = transition
		}
	}
	return last
}

// sameTermination reports whether both are the end of one Pod. Two Pods of one ImmortalContainer cannot end in the same second in the
// same way: the shortest backoff is a second.
func sameTermination(a, b *v1alpha1.Termination) bool {
	return a != nil && b != nil && a.FinishedAt.Equal(&b.FinishedAt) && a.Reason == b.Reason && a.Message == b.Message &&
		a.Pod == b.Pod && ptr.Equal(a.ExitCode, b.ExitCode)
}

// ranLongEnough reports whether the Pod ran long enough to reset the backoff.
func ranLongEnough(pod *corev1.Pod, backoff v1alpha1.Backoff) bool {
	started := pod.CreationTimestamp
	if pod.Status.StartTime != nil {
		started = *pod.Status.StartTime
	}
	return finishedAt(pod).Sub(started.Time) >= seconds(backoff.ResetAfterSeconds, defaultResetAfterSeconds)
}

// startDelay returns the delay after a number of terminations in a row: the initial one, doubled for each after the first.
func startDelay(backoff v1alpha1.Backoff, terminations int32) time.Duration {
	delay, limit := seconds(backoff.InitialSeconds, defaultInitialSeconds), seconds(backoff.MaxSeconds, defaultMaxSeconds)
	for range terminations - 1 {
		if delay >= limit {
			break
		}
		delay *= 2
	}
	return min(delay, limit)
}

func seconds(value, defaultValue int32) time.Duration {
	if value == 0 {
		value = defaultValue
	}
	return time.Duration(value) * time.Second
}
