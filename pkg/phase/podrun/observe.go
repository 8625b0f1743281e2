// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/tail"
)

// observe observes a call whose Pod is recorded by its UID.
func (f *Function) observe(ctx context.Context, call phase.Call, intent Intent, pod *corev1.Pod, watched bool) (phase.Observation, error) {
	running := phase.Observation{State: phase.Running, PollAfter: podPoll}
	if watched {
		running.PollAfter = watchedPodPoll
	}
	if f.runs.isCancelled(call.ID) {
		running.Waiting.For = intent.String() + " to be gone"
		return running, nil
	}
	run := f.runs.run(call.ID, intent.UID)
	if f.runs.held(run, pod) {
		return phase.Observation{State: phase.Idle}, nil
	}
	var result *logResult
	log := f.runs.logOf(run, call.ID, pod, intent.Container)
	if log != nil {
		result = log.read()
	}
	running.Waiting = waitingForPod(pod, intent.Container, log.whyUnread())
	switch {
	case result != nil && result.bad != nil:
		return phase.Observation{State: phase.Failed, Message: result.bad.Error()}, nil
	case result != nil && result.missing != nil && !hasEnded(pod) && podGone(result.missing):
		return f.gone(ctx, call, intent)
	case result != nil && result.missing != nil && !hasEnded(pod):
		return podFailure(call, intent.Pod, fmt.Sprintf("its log cannot be read: %v", result.missing)), nil
	case log != nil && result == nil && hasEnded(pod):
		return running, nil // its log is not read to the end yet
	case pod.Status.Phase == corev1.PodSucceeded:
		return succeeded(call, intent, pod, result), nil
	case pod.Status.Phase == corev1.PodFailed:
		return f.failedPod(ctx, call, intent, pod, result), nil
	case pod.Status.Phase == corev1.PodRunning:
		return running, nil
	default:
		return f.pending(ctx, call, pod, running)
	}
}

// pending observes a call whose Pod has not begun.
func (f *Function) pending(ctx context.Context, call phase.Call, pod *corev1.Pod, running phase.Observation) (phase.Observation, error) {
	if reason := neverBegins(pod); reason != "" {
		return podFailure(call, pod.Name, notReady+reason), nil
	}
	if claim := f.lostClaim(ctx, pod); claim != "" {
		return podFailure(call, pod.Name, fmt.Sprintf("%sPersistentVolumeClaim %s is Lost: its volume is gone", notReady, claim)), nil
	}
	by := beginsBy(pod, releasedAt(pod, call.StartTime))
	if by.IsZero() {
		return running, nil
	}
	left := time.Until(by)
	if left <= 0 {
		return podFailure(call, pod.Name, fmt.Sprintf("%sthe Pod has not begun within %s: %s", notReady, podStartLimit, whyWaiting(pod))), nil
	}
	running.PollAfter = min(running.PollAfter, left)
	return running, nil
}

// lostClaim returns a lost claim without which the Pod cannot begin; "" if there is none, or it cannot be read.
func (f *Function) lostClaim(ctx context.Context, pod *corev1.Pod) string {
	if !unschedulable(pod) {
		return ""
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		name := volume.PersistentVolumeClaim.ClaimName
		claim, err := f.runs.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && claim.Status.Phase == corev1.ClaimLost {
			return name
		}
	}
	return ""
}

// succeeded observes a call whose Pod has succeeded. result is nil if its main container never began.
func succeeded(call phase.Call, intent Intent, pod *corev1.Pod, result *logResult) phase.Observation {
	switch {
	case cutShort(pod):
		return podFailure(call, intent.Pod, "Failed while waiting for Pod to complete: the Pod was deleted while it ran")
	case result != nil && result.missing != nil:
		return podFailure(call, intent.Pod, fmt.Sprintf("Failed while waiting for Pod to complete: the Pod has ended, but its log cannot be read, and what it has output is lost: %v",
			result.missing))
	default:
		return phase.Observation{State: phase.Succeeded, Output: outputOf(result)}
	}
}

// outputOf returns the output in a log; nil if there is none.
func outputOf(result *logResult) map[string]any {
	if result == nil || len(result.outputs) == 0 {
		return nil
	}
	output := make(map[string]any, len(result.outputs))
	for key, value := range result.outputs {
		output[key] = value
	}
	return output
}

// failedPod observes a call whose Pod has failed. The message has the last lines of its log, or of another container that caused the failure.
func (f *Function) failedPod(ctx context.Context, call phase.Call, intent Intent, pod *corev1.Pod, result *logResult) phase.Observation {
	if intent.IgnoreFailure {
		return succeeded(call, intent, pod, result)
	}
	text, container, lines := phase.PodNotComplete+whyFailed(pod), intent.Container, []string(nil)
	if result != nil {
		lines = result.tail
	}
	if other := failedContainer(pod, intent.Container); other != "" && !failedItself(pod, intent.Container) {
		container, lines = other, f.tailOf(ctx, pod, other)
	}
	if len(lines) > 0 {
		text += fmt.Sprintf("\nlast lines of the log of container %s:\n%s", container, strings.Join(lines, "\n"))
	}
	return podFailure(call, intent.Pod, text)
}

func failedItself(pod *corev1.Pod, container string) bool {
	end := containerOf(pod, container).State.Terminated
	return end != nil && end.ExitCode != 0
}

// tailOf returns the last lines of the log of another container than the main one; nil if they cannot be read.
func (f *Function) tailOf(ctx context.Context, pod *corev1.Pod, container string) (lines []string) {
	options := logOptions(container, false)
	options.TailLines, options.LimitBytes = ptr.To[int64](tail.MaxLines), ptr.To[int64](tail.MaxLines*tail.MaxLineBytes)
	text, err := f.runs.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		lines = tail.Append(lines, line)
	}
	return lines
}
