// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// stop removes the Pod of a suspended container.
func stop(o observed) controller.Plan {
	return controller.Plan{Steps: append(append(statusStep(o, suspendedStatus(o)), suspendedEvent(o)...), deletePod{o.pod.UID})}
}

// suspendedStatus returns the status of a suspended container, whose Pod may still be terminating.
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

func setSuspended(o observed, status *v1alpha1.ImmortalContainerStatus) {
	const message = "spec.suspend is true"
	setCondition(o, status, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended, message)
	setCondition(o, status, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonSuspended, message)
}
