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

// trimContainer drops what no decision needs. Of an ImmortalContainer with a large template it keeps a header: everything except image and
// template, with their hash in an annotation, which shows whether the Pod is of this spec. Annotations of users are dropped, so this
// one is ours. The Pod is created from the live object.
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

// wantedHash returns the hash of the spec, also of a header.
func wantedHash(container *v1alpha1.ImmortalContainer) string {
	if isHeader(container) {
		return container.Annotations[AnnotationSpecHash]
	}
	return specHash(container.Spec)
}

// trimPod drops the spec, which no decision needs, and all annotations except ours.
func trimPod(pod *corev1.Pod) {
	controller.TrimMetadata(pod, AnnotationSpecHash, AnnotationStart)
	pod.Spec = corev1.PodSpec{}
}
