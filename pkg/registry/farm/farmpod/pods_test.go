// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var epoch = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

// testPod is a Pod that runs, with one container that is ready.
func testPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "barn", UID: "0d5c4f57-3d1c-4a7a-8a56-4b4d8b7c9a10", ResourceVersion: "41", CreationTimestamp: epoch,
			Labels: map[string]string{"app": name},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: corev1.PodReady,
				Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{running("main")},
		},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func running(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, Ready: true, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func notReady(status corev1.ContainerStatus) corev1.ContainerStatus {
	status.Ready = false
	return status
}

func restarted(times int32, status corev1.ContainerStatus) corev1.ContainerStatus {
	status.RestartCount = times
	return status
}

func waiting(name, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

func ended(name, reason string, code, signal int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason,
		ExitCode: code, Signal: signal}}}
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

func statusReason(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Reason = reason }
}

func deleted(pod *corev1.Pod) { pod.DeletionTimestamp = &epoch }

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for i := range pod.Status.Conditions {
			if pod.Status.Conditions[i].Type == kind {
				pod.Status.Conditions[i].Status, pod.Status.Conditions[i].Reason = status, reason
				return
			}
		}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason})
	}
}

// containers replaces the containers by some that have these states.
func containers(statuses ...corev1.ContainerStatus) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers, pod.Status.ContainerStatuses = nil, statuses
		for _, status := range statuses {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: status.Name, Image: "example.com/" + status.Name + ":1"})
		}
	}
}

// initContainers adds init containers that have these states, to a Pod that waits for them.
func initContainers(statuses ...corev1.ContainerStatus) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.InitContainerStatuses = corev1.PodPending, statuses
		condition(corev1.PodInitialized, corev1.ConditionFalse, "")(pod)
		for _, status := range statuses {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: status.Name})
		}
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i] = waiting(pod.Status.ContainerStatuses[i].Name, "PodInitializing")
		}
	}
}

// sidecar makes an init container one that runs next to the containers.
func sidecar(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for i := range pod.Spec.InitContainers {
			if pod.Spec.InitContainers[i].Name == name {
				pod.Spec.InitContainers[i].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			}
		}
	}
}

func initialized(pod *corev1.Pod) { condition(corev1.PodInitialized, corev1.ConditionTrue, "")(pod) }
