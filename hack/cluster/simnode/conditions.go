package simnode

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reasons that a kubelet gives in conditions.
const (
	podCompleted        = "PodCompleted"
	podFailed           = "PodFailed"
	containersNotReady  = "ContainersNotReady"
	readinessGatesUnmet = "ReadinessGatesNotReady"
)

// setReadiness makes the conditions, and the readiness of each container, follow from the states of the containers.
func setReadiness(status *corev1.PodStatus, o observed, s script) {
	unready := ""
	for i := range status.ContainerStatuses {
		c := &status.ContainerStatuses[i]
		c.Ready = c.State.Running != nil && !s.neverReady
		if !c.Ready {
			unready = fmt.Sprintf("containers with unready status: [%s]", c.Name)
		}
	}
	for i := range status.InitContainerStatuses {
		c := &status.InitContainerStatuses[i]
		c.Ready = c.State.Running != nil && !s.neverReady || c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
	}

	containersReady := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	initialized := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	switch {
	case status.Phase == corev1.PodSucceeded:
		initialized.Reason = podCompleted
		containersReady.Status, containersReady.Reason = corev1.ConditionFalse, podCompleted
	case status.Phase == corev1.PodFailed:
		containersReady.Status, containersReady.Reason = corev1.ConditionFalse, podFailed
	case unready != "":
		containersReady.Status, containersReady.Reason, containersReady.Message = corev1.ConditionFalse, containersNotReady, unready
	}
	ready := containersReady
	ready.Type = corev1.PodReady
	if gate := unmetGate(o.pod, status); ready.Status == corev1.ConditionTrue && gate != "" {
		ready.Status, ready.Reason = corev1.ConditionFalse, readinessGatesUnmet
		ready.Message = fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist or is not True", gate)
	}

	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
	for _, condition := range []corev1.PodCondition{initialized, ready, containersReady, scheduled} {
		condition.ObservedGeneration = o.pod.Generation
		setCondition(status, condition, metav1.NewTime(o.now))
	}
}

// unmetGate is the first readiness gate of the Pod whose condition is not true.
func unmetGate(pod *corev1.Pod, status *corev1.PodStatus) corev1.PodConditionType {
	for _, gate := range pod.Spec.ReadinessGates {
		if c := findCondition(status, gate.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return gate.ConditionType
		}
	}
	return ""
}

// setCondition sets a condition; its transition time changes with its status only.
func setCondition(status *corev1.PodStatus, condition corev1.PodCondition, now metav1.Time) {
	condition.LastTransitionTime = now
	existing := findCondition(status, condition.Type)
	if existing == nil {
		status.Conditions = append(status.Conditions, condition)
		return
	}
	if existing.Status == condition.Status {
		condition.LastTransitionTime = existing.LastTransitionTime
	}
	*existing = condition
}

func findCondition(status *corev1.PodStatus, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == conditionType {
			return &status.Conditions[i]
		}
	}
	return nil
}
