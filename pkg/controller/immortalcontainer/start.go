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

// withoutPod starts, backs off, or stays suspended.
func withoutPod(o observed) controller.Plan {
	status := &o.container.Status
	switch {
	case o.isLeavingWatch():
		return controller.Plan{}
	case o.container.Spec.Suspend && !isProgressing(status, v1alpha1.ReasonSuspended) && o.mayRunUnseen():
		return controller.Plan{Asks: []controller.Ask{readPod{}}}
	case o.container.Spec.Suspend:
		return controller.Plan{Steps: append(statusStep(o, suspendedStatus(o)), suspendedEvent(o)...)}
	case o.isBackingOff():
		return controller.Plan{Steps: statusStep(o, backingOffStatus(o)), RequeueAfter: status.NextStartTime.Sub(o.now)}
	case o.mayBeBlocked():
		return controller.Plan{Asks: []controller.Ask{readPod{}}}
	case o.isReserved():
		return complete(o)
	case o.mayRunUnseen():
		return controller.Plan{Asks: []controller.Ask{readPod{}}}
	}
	if wait := contestWait(o); wait > 0 {
		return pauseContest(o, wait)
	}
	return reserve(o)
}

// reserve counts one more start, and then executes it.
func reserve(o observed) controller.Plan {
	status := creatingStatus(o)
	status.StartTimes = max(status.StartTimes, status.ObservedStart) + 1
	return start(o, []controller.Step{writeStatus{status}}, status.StartTimes)
}

// complete executes the start that is already reserved.
func complete(o observed) controller.Plan {
	var steps []controller.Step
	status := &o.container.Status
	isReported := isProgressing(status, v1alpha1.ReasonCreating) || isProgressing(status, v1alpha1.ReasonWaitingForTermination) && status.CurrentPod != ""
	if !isReported || isConflict(status) || status.NextStartTime != nil {
		steps = statusStep(o, creatingStatus(o))
	}
	return start(o, steps, status.StartTimes)
}

func start(o observed, steps []controller.Step, number int64) controller.Plan {
	return controller.Plan{Steps: append(steps, createPod{number, causeOf(&o.container.Status, number), isContestPause(&o.container.Status)},
		controller.NormalEvent(eventStarted, "Created Pod %s, start %d", podName(o.container.Name), number))}
}

// creatingStatus returns the status of a reserved start. It already shows what is true once the Pod is created, so that a Pod that
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

// backingOffStatus is that of a container that waits for its next start.
func backingOffStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := baseStatus(o)
	status.CurrentPod, status.PodPhase = "", ""
	setBackingOff(o, &status)
	return status
}

func setBackingOff(o observed, status *v1alpha1.ImmortalContainerStatus) {
	message := backingOffMessage(status)
	setCondition(o, status, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBackingOff, message)
	setCondition(o, status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonBackingOff, message)
}

func backingOffMessage(status *v1alpha1.ImmortalContainerStatus) string {
	if isContestPause(status) {
		return fmt.Sprintf("Next start at %s: the Pod is deleted each time soon after it was created", status.NextStartTime.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("Next start at %s, after %d terminations in a row", status.NextStartTime.UTC().Format(time.RFC3339), status.ConsecutiveTerminations)
}

// afterRejection reports once why the API server has rejected the Pod, with the API server's message.
func afterRejection(o observed, reason, message string) controller.Plan {
	steps := statusStep(o, rejectedStatus(o, reason, message))
	if len(steps) > 0 {
		steps = append(steps, controller.WarningEvent(eventCreateFailed, "%s", message))
	}
	return controller.Plan{Steps: steps}
}

// rejectedStatus is that of a start whose Pod could not be created: still reserved, with the reason.
func rejectedStatus(o observed, reason, message string) v1alpha1.ImmortalContainerStatus {
	status := baseStatus(o)
	status.CurrentPod, status.PodPhase = "", ""
	if !conditionReason.MatchString(reason) {
		reason = eventCreateFailed // a webhook may return anything
	}
	setCondition(o, &status, v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonCreating, message)
	return status
}
