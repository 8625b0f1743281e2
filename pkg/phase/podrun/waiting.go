// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/phase"
)

// waitingForPod returns what a call waits for after its Pod was released. logProblem is why the log of the main container cannot be read at the
// moment.
func waitingForPod(pod *corev1.Pod, main, logProblem string) phase.Waiting {
	name := fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name)
	switch {
	case hasEnded(pod):
		return phase.Waiting{For: fmt.Sprintf("the log of container %s of %s", main, name), Details: logProblem}
	case pod.Spec.NodeName == "":
		return phase.Waiting{For: name + " to be scheduled", Details: whyUnscheduled(pod)}
	}
	for _, status := range allContainers(pod) {
		waiting := status.State.Waiting
		if waiting == nil || waiting.Reason == "" || waiting.Reason == "PodInitializing" || waiting.Reason == "ContainerCreating" {
			continue
		}
		reason := waiting.Reason
		if reason == "ErrImagePull" { // the reason alternates between this and ImagePullBackOff
			reason = "ImagePullBackOff"
		}
		return phase.Waiting{For: fmt.Sprintf("container %s of %s to start (%s)", status.Name, name, reason), Details: waiting.Message}
	}
	switch {
	case pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "":
		return phase.Waiting{For: fmt.Sprintf("%s to start on node %s", name, pod.Spec.NodeName)}
	case logProblem != "":
		return phase.Waiting{For: name + " to end, and for its log, which cannot be read", Details: logProblem}
	default:
		return phase.Waiting{For: name + " to end"}
	}
}

func whyUnscheduled(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return withDetails(condition.Reason, condition.Message)
		}
	}
	return ""
}
