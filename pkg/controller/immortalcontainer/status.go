// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// Reasons of the Ready condition that are ours; others are the Pod's or its containers' own.
const (
	reasonPodReady       = "PodReady"
	reasonPodStarting    = "PodStarting"
	reasonPodNotReady    = "PodNotReady"
	reasonPodTerminating = "PodTerminating"
	reasonResolved       = "Resolved"
)

// statusStep is the write of the status, or nothing where it would change nothing that matters. That a Pod was seen
// matters only together with something else: it costs no write of its own.
func statusStep(o observed, status v1alpha1.ImmortalContainerStatus) []step {
	current := o.container.Status
	current.ObservedStart = status.ObservedStart
	if equality.Semantic.DeepEqual(current, status) {
		return nil
	}
	return []step{writeStatus{status}}
}

// withStatusOnly is what a write of the status needs: the API server takes nothing else from it.
func withStatusOnly(container *v1alpha1.ImmortalContainer, status v1alpha1.ImmortalContainerStatus) *v1alpha1.ImmortalContainer {
	return &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Namespace: container.Namespace, Name: container.Name, UID: container.UID, ResourceVersion: container.ResourceVersion},
		Status:     status,
	}
}

// baseStatus is the current status with what every write brings up to date.
func baseStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := *o.container.Status.DeepCopy()
	status.ObservedGeneration = o.container.Generation
	status.ObservedStart = max(status.ObservedStart, o.memory.seen)
	if o.container.Generation != o.container.Status.ObservedGeneration {
		status.ConsecutiveTerminations, status.NextStartTime = 0, nil // an edit ends the back-off
	}
	if isConflict(&status) {
		setCondition(o, &status, v1alpha1.ConditionConflict, metav1.ConditionFalse, reasonResolved, "")
	}
	return status
}

// creatingStatus is that of a reserved start. It says already what is true once the Pod is created, so that a Pod that
// becomes Ready costs one more write, not two.
func creatingStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := baseStatus(o)
	status.CurrentPod = podName(o.container.Name)
	status.PodPhase = corev1.PodPending
	status.NextStartTime = nil
	message := fmt.Sprintf("Pod %s is starting", status.CurrentPod)
	setCondition(o, &status, v1alpha1.ConditionReady, metav1.ConditionFalse, reasonPodStarting, message)
	setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonCreating, message)
	return status
}

// refusedStatus is that of a start whose Pod could not be created: still reserved, and why it is held up.
func refusedStatus(o observed, reason, message string) v1alpha1.ImmortalContainerStatus {
	status := baseStatus(o)
	status.CurrentPod, status.PodPhase = "", ""
	if !conditionReason.MatchString(reason) {
		reason = eventCreateFailed // a webhook may say anything
	}
	setCondition(o, &status, v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonCreating, message)
	return status
}

// runningStatus mirrors our live Pod.
func runningStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := podStatus(o)
	ready, reason, message := readiness(o.pod)
	setCondition(o, &status, v1alpha1.ConditionReady, ready, reason, message)
	switch {
	case ready == metav1.ConditionTrue:
		setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRunning, "")
	case isProgressing(&status, v1alpha1.ReasonRunning):
		// It was Ready before: whatever ails it now, we have nothing to do about it.
		setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRunning, "")
	default:
		setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonCreating, fmt.Sprintf("Pod %s is starting", o.pod.Name))
	}
	status.NextStartTime = nil
	return status
}

// podStatus is the base with our Pod in it.
func podStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := baseStatus(o)
	status.ObservedStart = max(status.ObservedStart, startOf(o.pod))
	status.StartTimes = max(status.StartTimes, status.ObservedStart) // a status that was lost, by a restored backup say
	status.CurrentPod = o.pod.Name
	status.PodPhase = o.pod.Status.Phase
	if status.PodPhase == "" {
		status.PodPhase = corev1.PodPending // what the API server makes of it
	}
	return status
}

// terminatedStatus records how our finished Pod ended, and when the next one starts. The Pod is as good as gone.
func terminatedStatus(o observed) v1alpha1.ImmortalContainerStatus {
	recorded := o.container.Status.LastTermination
	status := podStatus(o)
	status.CurrentPod, status.PodPhase = "", ""
	status.LastTermination = terminationOf(o.pod)
	switch {
	case o.container.Spec.Suspend || o.pod.Annotations[AnnotationSpecHash] != wantedHash(o.container):
		// What terminated is not what is wanted now: no reason to wait.
		status.ConsecutiveTerminations, status.NextStartTime = 0, nil
	case !sameTermination(recorded, status.LastTermination):
		if ranLongEnough(o.pod, o.container.Spec.Backoff) {
			status.ConsecutiveTerminations = 0
		}
		status.ConsecutiveTerminations++
		// Counted from the end of the Pod, so that time in which no controller ran is not waited for again; but never
		// from a future that only the node's clock has seen.
		from := status.LastTermination.FinishedAt.Time
		if from.After(o.now) {
			from = o.now.Truncate(time.Second)
		}
		status.NextStartTime = &metav1.Time{Time: from.Add(startDelay(o.container.Spec.Backoff, status.ConsecutiveTerminations))}
	}
	switch {
	case o.container.Spec.Suspend:
		setSuspended(o, &status)
	case status.NextStartTime != nil:
		setBackingOff(o, &status)
	default:
		setReplacing(o, &status)
	}
	return status
}

// backingOffStatus is that of a container that waits for its next start.
func backingOffStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := baseStatus(o)
	status.CurrentPod, status.PodPhase = "", ""
	setBackingOff(o, &status)
	return status
}

// suspendedStatus is that of a suspended container, whose Pod may still be terminating.
func suspendedStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := baseStatus(o)
	status.CurrentPod, status.PodPhase = "", ""
	if o.pod != nil {
		status = podStatus(o)
	}
	status.ConsecutiveTerminations, status.NextStartTime = 0, nil
	setSuspended(o, &status)
	return status
}

// replacingStatus is that of a container whose Pod is of an older spec.
func replacingStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := podStatus(o)
	status.ConsecutiveTerminations, status.NextStartTime = 0, nil
	setReplacing(o, &status)
	return status
}

// terminatingStatus is that of a container whose Pod is being deleted, by us or by somebody else.
func terminatingStatus(o observed) v1alpha1.ImmortalContainerStatus {
	if isProgressing(&o.container.Status, v1alpha1.ReasonReplacing) {
		return replacingStatus(o)
	}
	status := podStatus(o)
	message := fmt.Sprintf("Pod %s is terminating", o.pod.Name)
	if status.NextStartTime == nil {
		status.StartTimes = max(status.StartTimes, startOf(o.pod)+1)
		message = fmt.Sprintf("Pod %s is terminating, start %d follows", o.pod.Name, status.StartTimes)
	}
	setCondition(o, &status, v1alpha1.ConditionReady, metav1.ConditionFalse, reasonPodTerminating, message)
	setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonWaitingForTermination, message)
	return status
}

// earlierStatus is that of a container whose name is still taken by the Pod of an earlier object.
func earlierStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := baseStatus(o)
	status.CurrentPod, status.PodPhase = "", ""
	message := fmt.Sprintf("Pod %s of an earlier ImmortalContainer of this name is still there", o.pod.Name)
	setCondition(o, &status, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForTermination, message)
	setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonWaitingForTermination, message)
	return status
}

// conflictStatus is that of a container whose name is taken by a Pod that is not ours.
func conflictStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := *o.container.Status.DeepCopy()
	status.ObservedGeneration = o.container.Generation
	status.CurrentPod, status.PodPhase = "", ""
	message := conflictMessage(o.pod.Name)
	setCondition(o, &status, v1alpha1.ConditionConflict, metav1.ConditionTrue, controller.ReasonResourceExists, message)
	setCondition(o, &status, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ConditionConflict, message)
	return status
}

func conflictMessage(pod string) string {
	return fmt.Sprintf("Resource %q already exists and is not managed by ImmortalContainer", pod)
}

func setSuspended(o observed, status *v1alpha1.ImmortalContainerStatus) {
	const message = "spec.suspend is true"
	setCondition(o, status, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended, message)
	setCondition(o, status, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonSuspended, message)
}

func setReplacing(o observed, status *v1alpha1.ImmortalContainerStatus) {
	message := fmt.Sprintf("Pod %s is of an older spec and is being deleted", o.pod.Name)
	setCondition(o, status, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReplacing, message)
	setCondition(o, status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonReplacing, message)
}

func setBackingOff(o observed, status *v1alpha1.ImmortalContainerStatus) {
	message := backingOffMessage(status)
	setCondition(o, status, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBackingOff, message)
	setCondition(o, status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonBackingOff, message)
}

func backingOffMessage(status *v1alpha1.ImmortalContainerStatus) string {
	if isContestPause(status) {
		return fmt.Sprintf("Next start at %s: the Pod is deleted each time, soon after it was created", status.NextStartTime.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("Next start at %s, after %d terminations in a row", status.NextStartTime.UTC().Format(time.RFC3339), status.ConsecutiveTerminations)
}

// conditionReason is what the API server accepts as a condition's reason.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// readiness is the Pod's Ready condition. While it is not Ready, the reason is the most telling one: that it fits on no
// node, what a container waits for, or the condition's own once it runs.
func readiness(pod *corev1.Pod) (status metav1.ConditionStatus, reason, message string) {
	ready := podCondition(pod, corev1.PodReady)
	if ready != nil && ready.Status == corev1.ConditionTrue {
		return metav1.ConditionTrue, reasonPodReady, ""
	}
	if scheduled := podCondition(pod, corev1.PodScheduled); scheduled != nil && scheduled.Status == corev1.ConditionFalse && conditionReason.MatchString(scheduled.Reason) {
		return metav1.ConditionFalse, scheduled.Reason, scheduled.Message
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if waiting := statuses[i].State.Waiting; waiting != nil && isTelling(waiting.Reason) {
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

// isTelling leaves out what every container goes through, and what cannot be a condition's reason.
func isTelling(waiting string) bool {
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

func setCondition(o observed, status *v1alpha1.ImmortalContainerStatus, conditionType string, value metav1.ConditionStatus, reason, message string) {
	controller.SetCondition(&status.Conditions, o.now, o.container.Generation, conditionType, value, reason, message)
}

func isProgressing(status *v1alpha1.ImmortalContainerStatus, reason string) bool {
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing)
	return condition != nil && condition.Reason == reason
}

func isConflict(status *v1alpha1.ImmortalContainerStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionConflict)
}

// isRejected tells whether the API server called the Pod invalid: no retry can mend that.
func isRejected(status *v1alpha1.ImmortalContainerStatus) bool {
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	return condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason == string(metav1.StatusReasonInvalid)
}
