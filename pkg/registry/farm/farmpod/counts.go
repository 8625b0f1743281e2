// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	corev1 "k8s.io/api/core/v1"
)

// counts are the figures of a Pod's containers.
type counts struct {
	// ready is the number of containers that run and are ready; init containers are not among them, nor among those they are compared with.
	ready int32
	// restarts is what kubectl shows: of containers and sidecars; of the init containers, while the Pod still waits for them.
	restarts int32
}

func count(pod *corev1.Pod) counts {
	var sum counts
	var ofInit, ofSidecars int32
	initializing := false
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		ofInit += status.RestartCount
		if isSidecar(pod, status.Name) {
			ofSidecars += status.RestartCount
		}
		if !isPassed(pod, status) {
			initializing = true
			break
		}
	}
	if initializing && !isTrue(pod, corev1.PodInitialized) {
		sum.restarts = ofInit
		return sum
	}
	sum.restarts = ofSidecars
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		sum.restarts += status.RestartCount
		if isReady(status) {
			sum.ready++
		}
	}
	return sum
}
