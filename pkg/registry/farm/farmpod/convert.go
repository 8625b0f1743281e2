// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/uuid"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
)

// uidSpace is the name space of the UUIDs of FarmPods (RFC 9562, section 5.5).
var uidSpace = uuid.NewSHA1(uuid.NameSpaceDNS, []byte(resource.String()))

// convert shows a Pod as a FarmPod, which shares labels and annotations with it.
func convert(pod *corev1.Pod) *farm.FarmPod {
	shown := &farm.FarmPod{}
	convertInto(shown, pod)
	return shown
}

func convertInto(shown *farm.FarmPod, pod *corev1.Pod) {
	counts := count(pod)
	shown.ObjectMeta = metadataOf(pod)
	shown.Spec = farm.FarmPodSpec{Containers: int32(len(pod.Spec.Containers))}
	shown.Status = farm.FarmPodStatus{
		PodName:         pod.Name,
		NodeName:        pod.Spec.NodeName,
		Phase:           pod.Status.Phase,
		Reason:          reason(pod),
		ReadyContainers: counts.ready,
		InitContainers:  int32(len(pod.Spec.InitContainers)),
		Restarts:        counts.restarts,
		Images:          imagesOf(pod),
	}
}

// metadataOf leaves out what is about the Pod as a stored object: managed fields, owners, finalizers.
func metadataOf(pod *corev1.Pod) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:                       farm.FarmPodPrefix + pod.Name,
		Namespace:                  pod.Namespace,
		UID:                        uidOf(pod),
		ResourceVersion:            pod.ResourceVersion,
		CreationTimestamp:          pod.CreationTimestamp,
		DeletionTimestamp:          pod.DeletionTimestamp,
		DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		Labels:                     pod.Labels,
		Annotations:                annotationsOf(pod),
	}
}

// uidOf is another UID than that of the Pod, since garbage collection takes objects of one UID for one object; but always the
// same for the same Pod.
func uidOf(pod *corev1.Pod) types.UID {
	return types.UID(uuid.NewSHA1(uidSpace, []byte(pod.UID)).String())
}

// annotationsOf are those of the Pod without the copy of it that kubectl keeps there.
func annotationsOf(pod *corev1.Pod) map[string]string {
	if _, found := pod.Annotations[corev1.LastAppliedConfigAnnotation]; !found {
		return pod.Annotations
	}
	annotations := maps.Clone(pod.Annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return annotations
}

func imagesOf(pod *corev1.Pod) []string {
	images := make([]string, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		images[i] = pod.Spec.Containers[i].Image
	}
	return images
}

// add lengthens a list by one that is empty.
func add(items *[]farm.FarmPod) *farm.FarmPod {
	*items = append(*items, farm.FarmPod{})
	return &(*items)[len(*items)-1]
}

// convertBookmark has what makes a bookmark: how far the watch has come, and the mark at the end of the initial events.
func convertBookmark(pod *corev1.Pod) *farm.FarmPod {
	return &farm.FarmPod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: pod.ResourceVersion, Annotations: pod.Annotations}}
}

// podName returns the name of the Pod that a FarmPod shows. Of names that no FarmPod has, there is none.
func podName(name string) (pod string, ok bool) {
	pod, ok = strings.CutPrefix(name, farm.FarmPodPrefix)
	return pod, ok && pod != ""
}
