// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package helloapp

import (
	"fmt"
	"regexp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

// reasonResolved is the reason of a Conflict that is over.
const reasonResolved = "Resolved"

// mirror shows in the status what exists: relevant changes immediately, the progress of a rollout at most once per settleTime.
func mirror(o observed) controller.Plan {
	if o.app.DeletionTimestamp != nil {
		return controller.Plan{}
	}
	status := statusOf(o)
	if equality.Semantic.DeepEqual(o.app.Status, status) {
		return controller.Plan{RequeueAfter: o.contestOver()}
	}
	if !isNews(&o.app.Status, &status) {
		if wait := min(o.memory.mirrored.Add(settleTime).Sub(o.now), settleTime); wait > 0 {
			return controller.Plan{RequeueAfter: wait}
		}
	}
	return controller.Plan{Steps: append([]controller.Step{writeStatus{status}}, warnings(o, &status)...), RequeueAfter: o.contestOver()}
}

// isNews reports whether more has changed than the counts and the texts of a rollout in progress.
func isNews(before, now *v1.HelloAppStatus) bool {
	is := func(status *v1.HelloAppStatus, conditionType string, value metav1.ConditionStatus) bool {
		return meta.IsStatusConditionPresentAndEqual(status.Conditions, conditionType, value)
	}
	return before.ObservedGeneration != now.ObservedGeneration ||
		reasonOf(before, v1.ConditionReady) != reasonOf(now, v1.ConditionReady) ||
		// A Deployment that was just created has neither condition: that it progresses and is not available is no news.
		is(before, v1.ConditionAvailable, metav1.ConditionTrue) != is(now, v1.ConditionAvailable, metav1.ConditionTrue) ||
		is(before, v1.ConditionProgressing, metav1.ConditionFalse) != is(now, v1.ConditionProgressing, metav1.ConditionFalse) ||
		is(before, v1.ConditionConflict, metav1.ConditionTrue) != is(now, v1.ConditionConflict, metav1.ConditionTrue)
}

// warnings returns the events that are recorded once, together with the status that they are about.
func warnings(o observed, status *v1.HelloAppStatus) (steps []controller.Step) {
	warn := func(conditionType, reason string) {
		before, now := meta.FindStatusCondition(o.app.Status.Conditions, conditionType), meta.FindStatusCondition(status.Conditions, conditionType)
		if before == nil || before.Status != now.Status || before.Reason != now.Reason || before.Message != now.Message {
			steps = append(steps, controller.WarningEvent(reason, "%s", now.Message))
		}
	}
	if meta.IsStatusConditionTrue(status.Conditions, v1.ConditionConflict) {
		warn(v1.ConditionConflict, controller.ReasonResourceExists)
	}
	switch {
	case o.rejection != nil:
		warn(v1.ConditionReady, eventApplyFailed)
	case o.app.Spec.Image == "":
		warn(v1.ConditionReady, v1.ReasonImageNotSet)
	}
	return steps
}

// statusOf returns the status for what was observed.
func statusOf(o observed) v1.HelloAppStatus {
	status := *o.app.Status.DeepCopy()
	status.ObservedGeneration = o.app.Generation
	status.Selector = podSelector(o.app.Name).String()
	if o.app.Spec.Image != "" && o.deployment != nil && metav1.IsControlledBy(o.deployment, o.app) {
		mirrorDeployment(o, &status)
	} else {
		status.DeploymentName = ""
		status.Replicas, status.ReadyReplicas, status.AvailableReplicas, status.UpdatedReplicas = 0, 0, 0, 0
		meta.RemoveStatusCondition(&status.Conditions, v1.ConditionAvailable)
		meta.RemoveStatusCondition(&status.Conditions, v1.ConditionProgressing)
	}
	if inTheWay := conflictMessage(o); inTheWay != "" {
		setCondition(o, &status, v1.ConditionConflict, metav1.ConditionTrue, controller.ReasonResourceExists, inTheWay)
	} else if meta.FindStatusCondition(status.Conditions, v1.ConditionConflict) != nil {
		setCondition(o, &status, v1.ConditionConflict, metav1.ConditionFalse, reasonResolved, "")
	}
	ready, reason, message := readiness(o)
	setCondition(o, &status, v1.ConditionReady, ready, reason, message)
	return status
}

func mirrorDeployment(o observed, status *v1.HelloAppStatus) {
	from := &o.deployment.Status
	status.DeploymentName = o.deployment.Name
	status.Replicas, status.ReadyReplicas = from.Replicas, from.ReadyReplicas
	status.AvailableReplicas, status.UpdatedReplicas = from.AvailableReplicas, from.UpdatedReplicas
	for _, conditionType := range []string{v1.ConditionAvailable, v1.ConditionProgressing} { // which have the same names
		if c := deploymentCondition(o.deployment, appsv1.DeploymentConditionType(conditionType)); c != nil {
			setCondition(o, status, conditionType, metav1.ConditionStatus(c.Status), validReason(c.Reason, conditionType), c.Message)
		} else {
			meta.RemoveStatusCondition(&status.Conditions, conditionType)
		}
	}
}

// conflictMessage names the foreign object that has our name; it is empty if there is none.
func conflictMessage(o observed) string {
	switch {
	case o.app.Spec.Image != "" && o.deploymentOwnership() == controller.Foreign:
		return fmt.Sprintf("Deployment %q already exists and is not managed by this HelloApp", o.app.Name)
	case o.app.Spec.Port != 0 && o.serviceOwnership() == controller.Foreign:
		return fmt.Sprintf("Service %q already exists and is not managed by this HelloApp", o.app.Name)
	default:
		return ""
	}
}

// readiness returns the Ready condition. A foreign Service does not affect it: the Pods run.
func readiness(o observed) (status metav1.ConditionStatus, reason, message string) {
	switch ownership := o.deploymentOwnership(); {
	case o.rejection != nil:
		return metav1.ConditionFalse, validReason(o.rejection.Reason, eventApplyFailed), o.rejection.Message
	case o.app.Spec.Image == "":
		return metav1.ConditionFalse, v1.ReasonImageNotSet, "spec.image is empty: there is nothing to run"
	case ownership == controller.Foreign:
		return metav1.ConditionFalse, v1.ReasonConflict, conflictMessage(o)
	case ownership == controller.Terminating:
		return metav1.ConditionFalse, v1.ReasonProgressing, fmt.Sprintf("Deployment %s is being deleted; then it is created again", o.app.Name)
	case ownership != controller.Owned && !o.deploymentContest().repairs.Slowed(o.now):
		return metav1.ConditionFalse, v1.ReasonProgressing, fmt.Sprintf("Deployment %s is being created", o.app.Name)
	case o.deploymentContest().repairs.Slowed(o.now):
		return metav1.ConditionFalse, v1.ReasonContested, contestedMessage("Deployment", o.app.Name)
	default:
		return rollout(o.app, o.deployment)
	}
}

// rollout returns the progress of our Deployment. While it is not done, the reason is the most specific one.
func rollout(app *v1.HelloApp, deployment *appsv1.Deployment) (status metav1.ConditionStatus, reason, message string) {
	counts, size := &deployment.Status, app.Spec.Size
	seen := counts.ObservedGeneration >= deployment.Generation
	if seen && ptr.Deref(deployment.Spec.Replicas, 1) == size && counts.Replicas == size && counts.UpdatedReplicas == size && counts.AvailableReplicas == size {
		return metav1.ConditionTrue, v1.ReasonAvailable, ""
	}
	if seen {
		if c := deploymentCondition(deployment, appsv1.DeploymentProgressing); c != nil && c.Status == corev1.ConditionFalse {
			return metav1.ConditionFalse, validReason(c.Reason, v1.ReasonProgressing), c.Message
		}
		if c := deploymentCondition(deployment, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
			return metav1.ConditionFalse, validReason(c.Reason, v1.ReasonProgressing), c.Message
		}
	}
	return metav1.ConditionFalse, v1.ReasonProgressing,
		fmt.Sprintf("%d of %d Pods are available, %d are of the newest version", counts.AvailableReplicas, size, counts.UpdatedReplicas)
}

func deploymentCondition(deployment *appsv1.Deployment, conditionType appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range deployment.Status.Conditions {
		if deployment.Status.Conditions[i].Type == conditionType {
			return &deployment.Status.Conditions[i]
		}
	}
	return nil
}

// conditionReason is what the API server accepts as a condition's reason.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// validReason returns the reason if it is valid, otherwise a default: a webhook may return anything.
func validReason(reason, otherwise string) string {
	if conditionReason.MatchString(reason) {
		return reason
	}
	return otherwise
}

func setCondition(o observed, status *v1.HelloAppStatus, conditionType string, value metav1.ConditionStatus, reason, message string) {
	controller.SetCondition(&status.Conditions, o.now, o.app.Generation, conditionType, value, reason, message)
}

func reasonOf(status *v1.HelloAppStatus, conditionType string) string {
	if condition := meta.FindStatusCondition(status.Conditions, conditionType); condition != nil {
		return condition.Reason
	}
	return ""
}

func hasReason(app *v1.HelloApp, reason string) bool {
	return reasonOf(&app.Status, v1.ConditionReady) == reason
}

func isConflict(app *v1.HelloApp) bool {
	return meta.IsStatusConditionTrue(app.Status.Conditions, v1.ConditionConflict)
}
