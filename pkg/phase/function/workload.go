// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// annotationRevision is on a Deployment and on its ReplicaSets.
const annotationRevision = "deployment.kubernetes.io/revision"

// workload is what a Deployment and a StatefulSet have in common.
type workload struct {
	metav1.ObjectMeta
	replicas int32
	selector *metav1.LabelSelector
	// asSpecified: according to its status it has the replicas of its spec, and they are ready.
	asSpecified bool
	// byReplicaSet: the Pods are owned by its current ReplicaSet.
	byReplicaSet bool
}

func workloadOfStatefulSet(set *appsv1.StatefulSet) *workload {
	replicas := ptr.Deref(set.Spec.Replicas, 1)
	return &workload{
		ObjectMeta: set.ObjectMeta, replicas: replicas, selector: set.Spec.Selector, asSpecified: set.Status.ReadyReplicas == replicas,
	}
}

func workloadOfDeployment(deployment *appsv1.Deployment) *workload {
	replicas, status := ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status
	asSpecified := status.ObservedGeneration >= deployment.Generation && status.Replicas == replicas &&
		status.UpdatedReplicas == replicas && status.AvailableReplicas == replicas
	return &workload{
		ObjectMeta: deployment.ObjectMeta, replicas: replicas, selector: deployment.Spec.Selector, asSpecified: asSpecified, byReplicaSet: true,
	}
}

// isCurrent reports whether a ReplicaSet is that of the Deployment's revision.
func isCurrent(set *appsv1.ReplicaSet, deployment metav1.Object) bool {
	return metav1.IsControlledBy(set, deployment) && set.Annotations[annotationRevision] == deployment.GetAnnotations()[annotationRevision]
}

// podCount counts the Pods of an owner.
type podCount struct {
	running int32
	// others are neither running nor ended. Ended ones, such as evicted Pods, may exist for days.
	others int32
}

// add counts a Pod if the owner controls it.
func (c *podCount) add(pod *corev1.Pod, owner metav1.Object) {
	if !metav1.IsControlledBy(pod, owner) {
		return
	}
	switch pod.Status.Phase {
	case corev1.PodRunning:
		c.running++
	case corev1.PodSucceeded, corev1.PodFailed:
	default:
		c.others++
	}
}
