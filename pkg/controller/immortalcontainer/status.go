// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"regexp"

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

// statusStep returns the write of the status, or nothing if it would change nothing relevant. That a Pod was seen is written only
// together with another change: it costs no write of its own.
func statusStep(o observed, status v1alpha1.ImmortalContainerStatus) []controller.Step {
	current := o.container.Status
	current.ObservedStart = status.ObservedStart
	if equality.Semantic.DeepEqual(current, status) {
		return nil
	}
	return []controller.Step{writeStatus{status}}
}

// withStatusOnly returns an object for a write of the status: the API server ignores everything else.
func withStatusOnly(container *v1alpha1.ImmortalContainer, status v1alpha1.ImmortalContainerStatus) *v1alpha1.ImmortalContainer {
	return &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Namespace: container.Namespace, Name: container.Name, UID: container.UID, ResourceVersion: container.ResourceVersion},
		Status:     status,
	}
}

// baseStatus returns the current status with the fields that every write updates.
func baseStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := *o.container.Status.DeepCopy()
	status.ObservedGeneration = o.container.Generation
	status.ObservedStart = max(status.ObservedStart, o.memory.seen)
	if o.container.Generation != o.container.Status.ObservedGeneration {
		status.ConsecutiveTerminations, status.NextStartTime = 0, nil // an edit ends the backoff
	}
	if isConflict(&status) {
		setCondition(o, &status, v1alpha1.ConditionConflict, metav1.ConditionFalse, reasonResolved, "")
	}
	return status
}

// podStatus returns the base status with our Pod in it.
func podStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := baseStatus(o)
	status.ObservedStart = max(status.ObservedStart, startOf(o.pod))
	status.StartTimes = max(status.StartTimes, status.ObservedStart) // a status that was lost, for instance by a restored backup
	status.CurrentPod = o.pod.Name
	status.PodPhase = o.pod.Status.Phase
	if status.PodPhase == "" {
		status.PodPhase = corev1.PodPending // the default of the API server
	}
	return status
}

// conditionReason is what the API server accepts as a condition's reason.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

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
