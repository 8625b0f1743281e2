// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podrun

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/phase"
)

// trim is the cache.TransformFunc of the watches.
func trim(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		return trimmed(pod), nil
	}
	return object, nil
}

// trimmed returns what observing a call needs of its Pod: of the metadata what identifies it, and of the spec what explains the status. The rest, with
// the command, is of the size that the author of a Blueprint chooses, and there may be many Pods.
func trimmed(pod *corev1.Pod) *corev1.Pod {
	spec := corev1.PodSpec{NodeName: pod.Spec.NodeName, RestartPolicy: pod.Spec.RestartPolicy, SchedulingGates: pod.Spec.SchedulingGates}
	for _, container := range pod.Spec.InitContainers {
		spec.InitContainers = append(spec.InitContainers, corev1.Container{Name: container.Name, RestartPolicy: container.RestartPolicy})
	}
	for _, volume := range pod.Spec.Volumes {
		if claim := volume.PersistentVolumeClaim; claim != nil {
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: volume.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}})
		}
	}
	return &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, CreationTimestamp: pod.CreationTimestamp,
			DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
			Labels:      only(pod.Labels, phase.LabelActionSet, phase.LabelPhase),
			Annotations: only(pod.Annotations, phase.AnnotationActionSet, phase.AnnotationNonce, phase.AnnotationReleased),
		},
		Spec: spec, Status: trimmedStatus(&pod.Status),
	}
}

// maxMessages is the maximum number of containers of which the message is kept.
const maxMessages = 16

// trimmedStatus returns the state of each container, without what its image and its node add: a Pod may have hundreds of containers.
func trimmedStatus(status *corev1.PodStatus) corev1.PodStatus {
	messages := maxMessages
	var conditions []corev1.PodCondition
	for _, condition := range status.Conditions {
		if condition.Type == corev1.PodScheduled || condition.Type == corev1.DisruptionTarget {
			condition.Message = kept(condition.Message)
			conditions = append(conditions, condition)
		}
	}
	return corev1.PodStatus{
		Phase: status.Phase, Reason: status.Reason, Message: kept(status.Message), Conditions: conditions,
		InitContainerStatuses: trimmedStates(status.InitContainerStatuses, &messages), ContainerStatuses: trimmedStates(status.ContainerStatuses, &messages),
	}
}

// kept returns a text in its maximum length, without the memory of the rest.
func kept(text string) string { return strings.Clone(shortened(text)) }

// trimmedStates keeps the messages of the first containers that have one.
func trimmedStates(statuses []corev1.ContainerStatus, messages *int) (states []corev1.ContainerStatus) {
	keep := func(message string) string {
		if message == "" || *messages == 0 {
			return ""
		}
		*messages--
		return kept(message)
	}
	for _, status := range statuses {
		state := corev1.ContainerStatus{Name: status.Name}
		switch of := status.State; {
		case of.Waiting != nil:
			state.State.Waiting = &corev1.ContainerStateWaiting{Reason: of.Waiting.Reason, Message: keep(of.Waiting.Message)}
		case of.Running != nil:
			state.State.Running = &corev1.ContainerStateRunning{}
		case of.Terminated != nil:
			state.State.Terminated = &corev1.ContainerStateTerminated{
				ExitCode: of.Terminated.ExitCode, Reason: of.Terminated.Reason, Message: keep(of.Terminated.Message), FinishedAt: of.Terminated.FinishedAt,
			}
		}
		if status.LastTerminationState.Terminated != nil {
			state.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{}
		}
		states = append(states, state)
	}
	return states
}

// only returns the entries with these keys.
func only(all map[string]string, keys ...string) map[string]string {
	kept := map[string]string{}
	for _, key := range keys {
		if value, ok := all[key]; ok {
			kept[key] = value
		}
	}
	return kept
}
