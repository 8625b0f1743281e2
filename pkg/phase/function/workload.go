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

// CurrentReplicaSet returns the ReplicaSet of the Deployment's revision; nil if there is none.
func CurrentReplicaSet(deployment metav1.Object, sets []appsv1.ReplicaSet) *appsv1.ReplicaSet {
	revision := deployment.GetAnnotations()[annotationRevision]
	for i := range sets {
		if metav1.IsControlledBy(&sets[i], deployment) && sets[i].Annotations[annotationRevision] == revision {
			return &sets[i]
		}
	}
	return nil
}

// podsAreReady reports whether the wanted number of Pods of the owner run. With noOthers there must be no other Pods of the owner, except ended
// ones, such as evicted Pods, which may exist for days.
func podsAreReady(pods []corev1.Pod, owner metav1.Object, wanted int32, noOthers bool) bool {
	running, others := int32(0), 0
	for i := range pods {
		if !metav1.IsControlledBy(&pods[i], owner) {
			continue
		}
		switch pods[i].Status.Phase {
		case corev1.PodRunning:
			running++
		case corev1.PodSucceeded, corev1.PodFailed:
		default:
			others++
		}
	}
	return running == wanted && (others == 0 || !noOthers)
}
