// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// conflictRetry is how often a sync checks whether a Pod that is not ours is gone: it is not in our watch.
const conflictRetry = 10 * time.Second

// waitForEarlier waits until the Pod of an earlier object of this name is gone. It may not be in our watch.
func waitForEarlier(o observed) controller.Plan {
	return controller.Plan{Steps: statusStep(o, earlierStatus(o)), RequeueAfter: conflictRetry}
}

// earlierStatus returns the status of a container while the Pod of an earlier object still has the name.
func earlierStatus(o observed) v1alpha1.ImmortalContainerStatus {
	status := baseStatus(o)
	status.CurrentPod, status.PodPhase = "", ""
	message := fmt.Sprintf("Pod %s of an earlier ImmortalContainer of this name is still there", o.pod.Name)
	setCondition(o, &status, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForTermination, message)
	setCondition(o, &status, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonWaitingForTermination, message)
	return status
}

// adopt adopts an orphan, whatever its spec is: the next plan decides whether to keep it. The count of starts continues from its start.
func adopt(o observed) controller.Plan {
	return controller.Plan{Steps: []controller.Step{
		adoptPod{o.pod.UID},
		controller.NormalEvent(eventAdopted, "Adopted Pod %s, which a deleted ImmortalContainer of this name has left", o.pod.Name),
	}}
}

// conflict reports once that a Pod that is not ours has the name that ours needs.
func conflict(o observed) controller.Plan {
	p := controller.Plan{Steps: statusStep(o, conflictStatus(o)), RequeueAfter: conflictRetry}
	if !isConflict(&o.container.Status) {
		p.Steps = append(p.Steps, controller.WarningEvent(controller.ReasonResourceExists, "%s", conflictMessage(o.pod.Name)))
	}
	return p
}

// conflictStatus returns the status of a container while a Pod that is not ours has the name.
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
