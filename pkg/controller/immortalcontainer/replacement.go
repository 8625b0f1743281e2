// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// replace removes the Pod of an older spec.
func replace(o observed) controller.Plan {
	steps := statusStep(o, replacingStatus(o))
	if !isProgressing(&o.container.Status, v1alpha1.ReasonReplacing) {
		steps = append(steps, controller.NormalEvent(eventReplaced, "Deleting Pod %s to replace it: the spec has changed", o.pod.Name))
	}
	return controller.Plan{Steps: append(steps, deletePod{o.pod.UID})}
}

// replacingStatus returns the status of a container whose Pod is of an older spec.
func replacingStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := podStatus(o)
	status.ConsecutiveTerminations, status.NextStartTime = 0, nil
	setReplacing(o, &status)
	return status
}

func setReplacing(o observed, status *v1alpha1.ImmortalContainerStatus) {
	message := fmt.Sprintf("Pod %s is of an older spec and is being deleted", o.pod.Name)
	setCondition(o, status, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReplacing, message)
	setCondition(o, status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonReplacing, message)
}
