// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

const (
	// ContainerName is the name of the container that runs spec.image.
	ContainerName = "acontainer"
	// podSuffix is appended to the ImmortalContainer's name for the name of the Pod.
	podSuffix = "-immortalpod"

	// LabelControllerUID has the UID of the ImmortalContainer: the name may be too long for a label.
	LabelControllerUID = "controller-uid"

	// AnnotationSpecHash has the hash of the spec at the time when the Pod was created.
	AnnotationSpecHash = "immortalcontainers.flugel.it/spec-hash"
	// AnnotationStart has the number of the Pod's start.
	AnnotationStart = "immortalcontainers.flugel.it/start"
)

var kind = schema.GroupVersion(v1alpha1.GroupVersion).WithKind("ImmortalContainer")

// podName returns the name of the Pod of the ImmortalContainer of that name.
func podName(name string) string { return name + podSuffix }

// containerName is the reverse of podName; false if it is not such a name.
func containerName(podName string) (string, bool) { return strings.CutSuffix(podName, podSuffix) }

// newPod builds the Pod of one start: the user's template with our container, name, owner and marks in it.
func newPod(container *v1alpha1.ImmortalContainer, start int64) *corev1.Pod {
	var template corev1.PodTemplateSpec
	if container.Spec.Template != nil {
		template = *container.Spec.Template.DeepCopy()
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            podName(container.Name),
			Namespace:       container.Namespace,
			Labels:          maps.Clone(template.Labels),
			Annotations:     maps.Clone(template.Annotations),
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(container, kind)},
		},
		Spec: template.Spec,
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, ownLabels(container))
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[AnnotationSpecHash] = specHash(container.Spec)
	pod.Annotations[AnnotationStart] = strconv.FormatInt(start, 10)

	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	pod.Spec.Containers = withImage(pod.Spec.Containers, container.Spec.Image)
	return pod
}

// adoptedOwners returns the owners of an orphan after its adoption. Other owners, which are not controllers, are kept.
func adoptedOwners(container *v1alpha1.ImmortalContainer, pod *corev1.Pod) []metav1.OwnerReference {
	owners := slices.DeleteFunc(slices.Clone(pod.OwnerReferences), func(owner metav1.OwnerReference) bool { return owner.UID == container.UID })
	return append(owners, *metav1.NewControllerRef(container, kind))
}

// ownLabels returns the labels that every Pod of the ImmortalContainer has.
func ownLabels(container *v1alpha1.ImmortalContainer) map[string]string {
	return map[string]string{controller.LabelManagedBy: controller.ManagedBy, LabelControllerUID: string(container.UID)}
}

// withImage sets the image of our container; if the template has no such container, it is added as the first.
func withImage(containers []corev1.Container, image string) []corev1.Container {
	for i := range containers {
		if containers[i].Name == ContainerName {
			containers[i].Image = image
			return containers
		}
	}
	return append([]corev1.Container{{Name: ContainerName, Image: image}}, containers...)
}

// startOf returns the number of the Pod's start; 0 if it has none.
func startOf(pod *corev1.Pod) int64 {
	start, err := strconv.ParseInt(pod.Annotations[AnnotationStart], 10, 64)
	if err != nil {
		return 0
	}
	return start
}
