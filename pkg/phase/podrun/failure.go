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
	// podTextLimit is how much of a text that others wrote, such as a termination message, stands in the text of a failure.
	podTextLimit = 1024

	// How the texts of failures begin, as users know them.
	notReady    = "Failed while waiting for Pod to be ready: "
	notComplete = "Failed while waiting for Pod to complete: Pod failed to complete in time: "
)

// podFailure is the text of a phase that fails because of its Pod. The text of a deferPhase does not name the Pod, as users know it.
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
	details = strings.TrimSpace(details)
	if len(details) > podTextLimit {
		details = strings.ToValidUTF8(details[:podTextLimit], "") + "..."
	}
	if details == "" {
		return text
	}
	return text + ": " + details
}

func allContainers(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// failedContainer is the first container that has failed, other than the main one; "" if none has.
func failedContainer(pod *corev1.Pod, main string) string {
	for _, status := range allContainers(pod) {
		if end := status.State.Terminated; end != nil && end.ExitCode != 0 && status.Name != main {
			return status.Name
		}
	}
	return ""
}

// neverBegins returns why a Pod that has not begun never will; "" if it may yet. A name that is none stays so. All else may come: an
// image, a Secret, room on a node.
func neverBegins(pod *corev1.Pod) string {
	for _, status := range allContainers(pod) {
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason == "InvalidImageName" {
			return withDetails(fmt.Sprintf("container %s cannot start: %s", status.Name, waiting.Reason), waiting.Message)
		}
	}
	return ""
}

// beginsBy is until when a Pod has to begin; zero if an init container runs, which may take long. Each that ends gives those after it
// their time.
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

// containerBegan reports whether a container has printed, or may have, and containerEnded that it prints no more.
func containerBegan(pod *corev1.Pod, name string) bool {
	status := containerOf(pod, name)
	return status.State.Running != nil || status.State.Terminated != nil || status.LastTerminationState.Terminated != nil
}

func containerEnded(pod *corev1.Pod, name string) bool {
	// One that was ended may be started again, unless its Pod forbids it.
	return hasEnded(pod) || pod.Spec.RestartPolicy == corev1.RestartPolicyNever && containerOf(pod, name).State.Terminated != nil
}

func containerOf(pod *corev1.Pod, name string) corev1.ContainerStatus {
	at := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if at < 0 {
		return corev1.ContainerStatus{}
	}
	return pod.Status.ContainerStatuses[at]
}

// cutShort reports whether the Pod was deleted while it ran. That its command then succeeded, as many do when they are asked to
// stop, does not mean that it was done.
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
