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

// Defaults of spec.backoff, in seconds; those of the CRD.
const (
	defaultInitialSeconds    = 10
	defaultMaxSeconds        = 300
	defaultResetAfterSeconds = 600
)

// settleTime is how long a Pod may be terminating before the status shows it. Most Pods are gone sooner, and then the status write
// that reserves the next start shows everything.
const settleTime = 3 * time.Second

// maxTerminationMessage is the limit of a termination message, in bytes.
const maxTerminationMessage = 1024

// recordTermination records how the Pod ended, once, and removes it.
func recordTermination(o observed) controller.Plan {
	status := terminatedStatus(o)
	steps := statusStep(o, status)
	if !sameTermination(o.container.Status.LastTermination, status.LastTermination) {
		steps = append(steps, terminationEvents(status)...)
	}
	if o.container.Spec.Suspend {
		steps = append(steps, suspendedEvent(o)...)
	}
	p := controller.Plan{Steps: append(steps, deletePod{o.pod.UID})}
	if status.NextStartTime != nil {
		p.RequeueAfter = max(status.NextStartTime.Sub(o.now), 0)
	}
	return p
}

// terminatedStatus returns the status with how our finished Pod ended, and when the next one starts. It treats the Pod as gone.
func terminatedStatus(o observed) v1alpha1.ImmortalContainerStatus {
	recorded := o.container.Status.LastTermination
	status := podStatus(o)
	status.CurrentPod, status.PodPhase = "", ""
	status.LastTermination = terminationOf(o.pod)
	switch {
	case o.container.Spec.Suspend || o.pod.Annotations[AnnotationSpecHash] != wantedHash(o.container):
		// The Pod that terminated was of an older spec: no reason to wait.
		status.ConsecutiveTerminations, status.NextStartTime = 0, nil
	case !sameTermination(recorded, status.LastTermination):
		if ranLongEnough(o.pod, o.container.Spec.Backoff) {
			status.ConsecutiveTerminations = 0
		}
		status.ConsecutiveTerminations++
		// Counted from the end of the Pod, so that time in which no controller ran is part of the wait; but never from a future
		// time, which a wrong clock of the node can cause.
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

// waitForTermination shows that our Pod terminates, unless it will probably be gone soon. That status also reserves the next start:
// a recovery then takes one status write before its Pod, however long it has to wait.
func waitForTermination(o observed) controller.Plan {
	if o.container.Spec.Suspend {
		return controller.Plan{Steps: append(statusStep(o, suspendedStatus(o)), suspendedEvent(o)...)}
	}
	steps := statusStep(o, terminatingStatus(o))
	if len(steps) == 0 {
		return controller.Plan{}
	}
	if wait := min(terminatingSince(o.pod).Add(settleTime).Sub(o.now), settleTime); wait > 0 {
		return controller.Plan{RequeueAfter: wait}
	}
	return controller.Plan{Steps: steps}
}

// terminatingSince returns when the Pod was deleted: the deletionTimestamp is when the grace period ends.
func terminatingSince(pod *corev1.Pod) time.Time {
	since := pod.DeletionTimestamp.Time
	if pod.DeletionGracePeriodSeconds != nil {
		since = since.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	}
	return since
}

// terminatingStatus returns the status of a container whose Pod is being deleted, by us or by another client.
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
