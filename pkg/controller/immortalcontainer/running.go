// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// startTime is how long the status may still show that the last Pod is terminating while the next Pod, which is already created,
// starts. Most Pods are Ready sooner, and then that is the next status.
const startTime = 10 * time.Second

// reportRunning shows the state of our live Pod in the status, unless the Pod will probably be Ready soon.
func reportRunning(o observed) controller.Plan {
	steps := statusStep(o, runningStatus(o))
	_, reason, _ := readiness(o.pod)
	if len(steps) == 0 || reason != reasonPodStarting || !isProgressing(&o.container.Status, v1alpha1.ReasonWaitingForTermination) {
		return controller.Plan{Steps: steps}
	}
	if wait := min(o.pod.CreationTimestamp.Add(startTime).Sub(o.now), startTime); wait > 0 {
		return controller.Plan{RequeueAfter: wait}
	}
	return controller.Plan{Steps: steps}
}

// runningStatus returns the status of a container whose Pod is live.
func runningStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := podStatus(o)
	ready, reason, message := readiness(o.pod)
	setCondition(o, &status, v1alpha1.ConditionReady, ready, reason, message)
	switch {
	case ready == metav1.ConditionTrue:
		setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRunning, "")
	case isProgressing(&status, v1alpha1.ReasonRunning):
		// It was Ready before: if it is not Ready now, there is nothing for us to do.
		setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRunning, "")
	default:
		setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonCreating, fmt.Sprintf("Pod %s is starting", o.pod.Name))
	}
	status.NextStartTime = nil
	return status
}

// readiness returns the Pod's Ready condition. While it is not Ready, the reason is the most specific one: that it fits on no node,
// what a container waits for, or the condition's own once it runs.
func readiness(pod *corev1.Pod) (status metav1.ConditionStatus, reason, message string) {
	ready := podCondition(pod, corev1.PodReady)
	if ready != nil && ready.Status == corev1.ConditionTrue {
		return metav1.ConditionTrue, reasonPodReady, ""
	}
	scheduled := podCondition(pod, corev1.PodScheduled)
	if scheduled != nil && scheduled.Status == corev1.ConditionFalse && conditionReason.MatchString(scheduled.Reason) {
		return metav1.ConditionFalse, scheduled.Reason, scheduled.Message
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if waiting := statuses[i].State.Waiting; waiting != nil && isSpecific(waiting.Reason) {
				return metav1.ConditionFalse, waiting.Reason, fmt.Sprintf("Container %s: %s", statuses[i].Name, waiting.Message)
			}
		}
	}
	switch {
	case pod.Status.Phase != corev1.PodRunning:
		return metav1.ConditionFalse, reasonPodStarting, fmt.Sprintf("Pod %s is starting", pod.Name)
	case ready != nil && conditionReason.MatchString(ready.Reason):
		return metav1.ConditionFalse, ready.Reason, ready.Message
	default:
		return metav1.ConditionFalse, reasonPodNotReady, fmt.Sprintf("Pod %s is not ready", pod.Name)
	}
}

// isSpecific reports whether a reason is not one that every container has for a moment, and can be a condition's reason.
func isSpecific(waiting string) bool {
	return waiting != "ContainerCreating" && waiting != "PodInitializing" && conditionReason.MatchString(waiting)
}

func podCondition(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == conditionType {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
