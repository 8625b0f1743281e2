// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podwire

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reset makes a Pod an empty one, which uses the memory of its lists again.
func reset(pod *corev1.Pod) {
	spec, status := &pod.Spec, &pod.Status
	*pod = corev1.Pod{
		Spec: corev1.PodSpec{Containers: spec.Containers[:0], InitContainers: spec.InitContainers[:0]},
		Status: corev1.PodStatus{
			Conditions: status.Conditions[:0], ContainerStatuses: status.ContainerStatuses[:0], InitContainerStatuses: status.InitContainerStatuses[:0],
		},
	}
}

func readPod(pod *corev1.Pod, message []byte) error {
	return eachField(message, func(f field) error {
		switch f.number {
		case 1:
			return readMetadata(&pod.ObjectMeta, f.bytes)
		case 2:
			return readSpec(&pod.Spec, f.bytes)
		case 3:
			return readStatus(&pod.Status, f.bytes)
		}
		return nil
	})
}

func readMetadata(metadata *metav1.ObjectMeta, message []byte) error {
	return eachField(message, func(f field) error {
		switch f.number {
		case 1:
			metadata.Name = f.string()
		case 3:
			metadata.Namespace = f.string()
		case 5:
			metadata.UID = types.UID(f.bytes)
		case 6:
			metadata.ResourceVersion = f.string()
		case 8:
			return metadata.CreationTimestamp.Unmarshal(f.bytes)
		case 9:
			metadata.DeletionTimestamp = &metav1.Time{}
			return metadata.DeletionTimestamp.Unmarshal(f.bytes)
		case 10:
			seconds := int64(f.value)
			metadata.DeletionGracePeriodSeconds = &seconds
		case 11:
			return readPair(&metadata.Labels, f.bytes)
		case 12:
			return readPair(&metadata.Annotations, f.bytes)
		}
		return nil
	})
}

func readPair(pairs *map[string]string, message []byte) error {
	var key, value string
	err := eachField(message, func(f field) error {
		switch f.number {
		case 1:
			key = f.string()
		case 2:
			value = f.string()
		}
		return nil
	})
	if *pairs == nil {
		*pairs = map[string]string{}
	}
	(*pairs)[key] = value
	return err
}

func readSpec(spec *corev1.PodSpec, message []byte) error {
	return eachField(message, func(f field) error {
		switch f.number {
		case 2:
			return readContainer(add(&spec.Containers), f.bytes)
		case 10:
			spec.NodeName = f.string()
		case 20:
			return readContainer(add(&spec.InitContainers), f.bytes)
		}
		return nil
	})
}

// add lengthens a list by an empty element.
func add[T any](list *[]T) *T {
	var empty T
	*list = append(*list, empty)
	return &(*list)[len(*list)-1]
}

func readContainer(container *corev1.Container, message []byte) error {
	return eachField(message, func(f field) error {
		switch f.number {
		case 1:
			container.Name = f.string()
		case 2:
			container.Image = f.string()
		case 24:
			policy := corev1.ContainerRestartPolicy(f.bytes)
			container.RestartPolicy = &policy
		}
		return nil
	})
}
