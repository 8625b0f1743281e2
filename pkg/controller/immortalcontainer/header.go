// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// maxHeldTemplate is the size in bytes up to which a template is held in the cache. Most are of one or two KiB.
const maxHeldTemplate = 64 << 10

// trimContainer drops what no decision is made from. Of an ImmortalContainer with a large template it leaves a header: all but image and
// template, and in an annotation their hash, by which it is decided whether the Pod is of this spec. Annotations of users are dropped,
// so this one is ours. The Pod is made from the live object.
func trimContainer(container *v1alpha1.ImmortalContainer) {
	if isHeader(container) {
		return
	}
	controller.TrimMetadata(container)
	if template := container.Spec.Template; template != nil && template.Size() > maxHeldTemplate {
		container.Annotations = map[string]string{AnnotationSpecHash: specHash(container.Spec)}
		container.Spec.Image, container.Spec.Template = "", nil
	}
}

// isHeader reports whether the object is what trimContainer leaves. The API server lets no image be empty.
func isHeader(container *v1alpha1.ImmortalContainer) bool {
	return container.Spec.Image == "" && container.Annotations[AnnotationSpecHash] != ""
}

// wantedHash is the hash of the spec, also where only the header is at hand.
func wantedHash(container *v1alpha1.ImmortalContainer) string {
	if isHeader(container) {
		return container.Annotations[AnnotationSpecHash]
	}
	return specHash(container.Spec)
}

// trimPod drops the spec, which nothing is decided from, and all annotations but ours.
func trimPod(pod *corev1.Pod) {
	controller.TrimMetadata(pod, AnnotationSpecHash, AnnotationStart)
	pod.Spec = corev1.PodSpec{}
}
