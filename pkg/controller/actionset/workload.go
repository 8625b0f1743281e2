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

// workloadOf returns the data of a workload for templates. It has the running Pods that the owner controls.
func workloadOf(subject, owner metav1.Object, pods []corev1.Pod) *blueprint.Workload {
	workload := &blueprint.Workload{
		Name: subject.GetName(), Namespace: subject.GetNamespace(), Pods: []string{}, Containers: [][]string{},
		PersistentVolumeClaims: map[string]map[string]string{},
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for i := range pods {
		pod := &pods[i]
		if pod.Status.Phase != corev1.PodRunning || !metav1.IsControlledBy(pod, owner) {
			continue
		}
		containers := make([]string, 0, len(pod.Status.ContainerStatuses))
		for _, status := range pod.Status.ContainerStatuses {
			containers = append(containers, status.Name)
		}
		workload.Pods = append(workload.Pods, pod.Name)
		workload.Containers = append(workload.Containers, containers)
		if claims := claimsOf(pod); len(claims) > 0 {
			workload.PersistentVolumeClaims[pod.Name] = claims
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
