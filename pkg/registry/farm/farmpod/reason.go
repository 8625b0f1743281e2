// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// reason returns the state of a Pod in one word, as kubectl shows it in the column STATUS.
func reason(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		switch {
		case pod.Status.Reason == "NodeLost":
			return string(corev1.PodUnknown)
		case pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed:
			return "Terminating"
		}
	}
	found := ofPod(pod)
	initReason, initializing := ofInitContainers(pod)
	if initializing {
		found = initReason
	}
	if initializing && !isTrue(pod, corev1.PodInitialized) {
		return found
	}
	return ofContainers(pod, found)
}

// ofPod is the reason of the Pod as a whole.
func ofPod(pod *corev1.Pod) string {
	if isGated(pod) {
		return corev1.PodReasonSchedulingGated
	}
	if pod.Status.Reason != "" {
		return pod.Status.Reason
	}
	return string(pod.Status.Phase)
}

func isGated(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonSchedulingGated {
			return true
		}
	}
	return false
}

// isTrue reports whether the first condition of a type is true.
func isTrue(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	for i := range pod.Status.Conditions {
		if condition := &pod.Status.Conditions[i]; condition.Type == kind {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// ofInitContainers returns the reason of the first init container that the Pod still waits for.
func ofInitContainers(pod *corev1.Pod) (reason string, initializing bool) {
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if isPassed(pod, status) {
			continue
		}
		waiting, ended := status.State.Waiting, status.State.Terminated
		switch {
		case ended != nil:
			return "Init:" + ofEnd(ended), true
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			return "Init:" + waiting.Reason, true
		default:
			return fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers)), true
		}
	}
	return "", false
}

// isPassed reports whether an init container holds up the ones after it no more: it has done its work, or, if it runs next to the
// containers (a sidecar), it has started.
func isPassed(pod *corev1.Pod, status *corev1.ContainerStatus) bool {
	if status.State.Terminated != nil && status.State.Terminated.ExitCode == 0 {
		return true
	}
	return status.Started != nil && *status.Started && isSidecar(pod, status.Name)
}

func isSidecar(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if container := &pod.Spec.InitContainers[i]; container.Name == name {
			return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}

// ofEnd is why a container has ended.
func ofEnd(ended *corev1.ContainerStateTerminated) string {
	switch {
	case ended.Reason != "":
		return ended.Reason
	case ended.Signal != 0:
		return fmt.Sprintf("Signal:%d", ended.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", ended.ExitCode)
	}
}

// ofContainers is the reason of the first container that does not simply run; if none does, what was found before. Of a Pod whose
// first such container has completed, the others are more important.
func ofContainers(pod *corev1.Pod, found string) string {
	running, failure := false, ""
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		status := &pod.Status.ContainerStatuses[i]
		waiting, ended := status.State.Waiting, status.State.Terminated
		switch {
		case waiting != nil && waiting.Reason != "":
			found = waiting.Reason
		case ended != nil:
			found = ofEnd(ended)
			if ended.ExitCode != 0 {
				failure = found
			}
		case isReady(status):
			running = true
		}
	}
	switch {
	case found != "Completed":
		return found
	case running && isTrue(pod, corev1.PodReady):
		return string(corev1.PodRunning)
	case failure != "":
		return failure
	case running:
		return "NotReady"
	default:
		return found
	}
}

func isReady(status *corev1.ContainerStatus) bool { return status.Ready && status.State.Running != nil }
