// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/blueprint"
)

// workloadPod is what templates get of a Pod of a workload.
type workloadPod struct {
	name       string
	containers []string
	// claims are the mount paths of its claims, by claim.
	claims map[string]string
}

// workloadPodOf returns what templates get of a Pod; ok is false if the Pod does not run, or if the owner does not control it.
func workloadPodOf(pod *corev1.Pod, owner metav1.Object) (_ workloadPod, ok bool) {
	if pod.Status.Phase != corev1.PodRunning || !metav1.IsControlledBy(pod, owner) {
		return workloadPod{}, false
	}
	containers := make([]string, 0, len(pod.Status.ContainerStatuses))
	for _, status := range pod.Status.ContainerStatuses {
		containers = append(containers, status.Name)
	}
	return workloadPod{pod.Name, containers, claimsOf(pod)}, true
}

// workloadOf returns the data of a workload for templates, with the Pods in the order of their names.
func workloadOf(subject metav1.Object, pods []workloadPod) *blueprint.Workload {
	workload := &blueprint.Workload{
		Name: subject.GetName(), Namespace: subject.GetNamespace(), Pods: []string{}, Containers: [][]string{},
		PersistentVolumeClaims: map[string]map[string]string{},
	}
	slices.SortFunc(pods, func(a, b workloadPod) int { return cmp.Compare(a.name, b.name) })
	for _, pod := range pods {
		workload.Pods = append(workload.Pods, pod.name)
		workload.Containers = append(workload.Containers, pod.containers)
		if len(pod.claims) > 0 {
			workload.PersistentVolumeClaims[pod.name] = pod.claims
		}
	}
	return workload
}

// claimsOf returns the mount paths of the claims of a Pod, by claim. The path is that of the first container that mounts the claim.
func claimsOf(pod *corev1.Pod) map[string]string {
	claims := map[string]string{}
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		for _, container := range pod.Spec.Containers {
			mounted := slices.IndexFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool { return mount.Name == volume.Name })
			if mounted >= 0 {
				claims[volume.PersistentVolumeClaim.ClaimName] = container.VolumeMounts[mounted].MountPath
				break
			}
		}
	}
	return claims
}
