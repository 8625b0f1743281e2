// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/phase"
)

const (
	// podStartLimit is how long a Pod may take to begin.
	podStartLimit = 15 * time.Minute
	// podTextLimit is the maximum length of a text of others, such as a termination message, in the message of a failure, in bytes.
	podTextLimit = 1024

	// The messages of failures begin with this text or with phase.PodNotComplete, as in Kanister.
	notReady = "Failed while waiting for Pod to be ready: "
)

// podFailure returns the observation of a phase that fails because of its Pod. The message of a deferPhase does not name the Pod, as in Kanister.
func podFailure(call phase.Call, pod, text string) phase.Observation {
	if call.ID.Phase != phase.Deferred {
		details, _ := json.Marshal(map[string]string{"pod": pod}) // cannot fail
		text = string(details) + ": " + text
	}
	return phase.Observation{State: phase.Failed, Message: text}
}

// whyFailed returns the reasons in the status of a Pod that has failed.
func whyFailed(pod *corev1.Pod) string {
	var parts []string
	if cutShort(pod) {
		parts = append(parts, "the Pod was deleted while it ran")
	}
	if reason := pod.Status.Reason; reason != "" {
		parts = append(parts, "the Pod has failed: "+withDetails(reason, pod.Status.Message))
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			parts = append(parts, "the Pod was disrupted: "+withDetails(condition.Reason, condition.Message))
		}
	}
	for _, status := range allContainers(pod) {
		end := status.State.Terminated
		if end == nil || end.ExitCode == 0 {
			continue
		}
		text := fmt.Sprintf("container %s exited with code %d", status.Name, end.ExitCode)
		if reason := end.Reason; reason != "" && reason != "Error" {
			text += " (" + reason + ")"
		}
		parts = append(parts, withDetails(text, end.Message))
	}
	if len(parts) == 0 {
		parts = append(parts, withDetails("the Pod has failed, and its status has no reason", pod.Status.Message))
	}
	return strings.Join(parts, "; ")
}

func withDetails(text, details string) string {
	if details = shortened(details); details != "" {
		text += ": " + details
	}
	return text
}

// shortened returns a text of others in its maximum length.
func shortened(text string) string { return phase.Shorten(strings.TrimSpace(text), podTextLimit) }

func allContainers(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// failedContainer returns the first container that has failed, other than the main one; "" if none has.
func failedContainer(pod *corev1.Pod, main string) string {
	for _, status := range allContainers(pod) {
		if end := status.State.Terminated; end != nil && end.ExitCode != 0 && status.Name != main {
			return status.Name
		}
	}
	return ""
}

// neverBegins returns why a Pod will never begin; "" if it may still begin. Only an invalid image name cannot change. A missing image, a missing
// Secret, or missing resources of a node may still appear.
func neverBegins(pod *corev1.Pod) string {
	for _, status := range allContainers(pod) {
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason == "InvalidImageName" {
			return withDetails(fmt.Sprintf("container %s cannot start: %s", status.Name, waiting.Reason), waiting.Message)
		}
	}
	return ""
}

// beginsBy returns when a Pod must have begun; zero while an init container runs, which may take long. The time starts again with the end of each
// init container.
func beginsBy(pod *corev1.Pod, since time.Time) time.Time {
	for _, status := range pod.Status.InitContainerStatuses {
		switch state := status.State; {
		case state.Running != nil && !isSidecar(pod, status.Name):
			return time.Time{}
		case state.Terminated != nil && state.Terminated.FinishedAt.After(since):
			since = state.Terminated.FinishedAt.Time
		}
	}
	return since.Add(podStartLimit)
}

// isSidecar reports whether an init container runs as long as its Pod.
func isSidecar(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}

// whyWaiting returns the reason in the status of a Pod that has not begun.
func whyWaiting(pod *corev1.Pod) string {
	for _, status := range allContainers(pod) {
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing" {
			return withDetails(fmt.Sprintf("container %s waits: %s", status.Name, waiting.Reason), waiting.Message)
		}
	}
	if unschedulable(pod) {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled {
				return withDetails("no node takes it: "+condition.Reason, condition.Message)
			}
		}
	}
	if pod.Spec.NodeName != "" {
		return "node " + pod.Spec.NodeName + " does not start it"
	}
	return "its status has no reason"
}

func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// hasEnded reports whether nothing of a Pod runs any more.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// containerBegan reports whether a container may have printed something.
func containerBegan(pod *corev1.Pod, name string) bool {
	status := containerOf(pod, name)
	return status.State.Running != nil || status.State.Terminated != nil || status.LastTerminationState.Terminated != nil
}

// containerEnded reports whether a container prints nothing more.
func containerEnded(pod *corev1.Pod, name string) bool {
	// A terminated container may be started again, unless its Pod forbids it.
	return hasEnded(pod) || pod.Spec.RestartPolicy == corev1.RestartPolicyNever && containerOf(pod, name).State.Terminated != nil
}

func containerOf(pod *corev1.Pod, name string) corev1.ContainerStatus {
	at := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if at < 0 {
		return corev1.ContainerStatus{}
	}
	return pod.Status.ContainerStatuses[at]
}

// cutShort reports whether the Pod was deleted while it ran. Then an exit code of 0 does not mean that the command was complete: many commands
// exit with 0 when they get SIGTERM.
func cutShort(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	asked := pod.DeletionTimestamp.Time
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		asked = asked.Add(-time.Duration(*grace) * time.Second)
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Terminated == nil || !s.State.Terminated.FinishedAt.Time.Before(asked)
	})
}
