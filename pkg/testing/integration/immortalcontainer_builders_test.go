// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

// immortal returns an ImmortalContainer.
func immortal(name string, changes ...func(*v1alpha1.ImmortalContainer)) *v1alpha1.ImmortalContainer {
	container := &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ImmortalContainerSpec{Image: "nginx:latest"},
	}
	for _, change := range changes {
		change(container)
	}
	return container
}

// annotated returns a change that sets an annotation of the Pod.
func annotated(key, value string) func(*v1alpha1.ImmortalContainer) {
	return func(container *v1alpha1.ImmortalContainer) {
		if container.Spec.Template == nil {
			container.Spec.Template = &corev1.PodTemplateSpec{}
		}
		metav1.SetMetaDataAnnotation(&container.Spec.Template.ObjectMeta, key, value)
	}
}

// exits returns a change that makes the container exit with the code after this many seconds.
func exits(code int, after string) func(*v1alpha1.ImmortalContainer) {
	return func(container *v1alpha1.ImmortalContainer) {
		annotated(exitCode, strconv.Itoa(code))(container)
		annotated(runSeconds, after)(container)
	}
}

func backoff(initial, longest int32) func(*v1alpha1.ImmortalContainer) {
	return func(container *v1alpha1.ImmortalContainer) {
		container.Spec.Backoff = v1alpha1.Backoff{InitialSeconds: initial, MaxSeconds: longest}
	}
}

// describe returns the state of an ImmortalContainer as one line.
func describe(container *v1alpha1.ImmortalContainer) string {
	line := fmt.Sprintf("ImmortalContainer %s: generation %d (observed %d), starts %d, Pod %q %s", container.Name, container.Generation,
		container.Status.ObservedGeneration, container.Status.StartTimes, container.Status.CurrentPod, container.Status.PodPhase)
	for _, condition := range container.Status.Conditions {
		line += fmt.Sprintf("; %s=%s %s %q", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	return line
}

// warnings returns how many Warning events an ImmortalContainer has.
func (e *env) warnings(name string) (count int) {
	e.Helper()
	for _, event := range e.events(name) {
		if event.Type == corev1.EventTypeWarning {
			count += int(max(event.Count, 1))
		}
	}
	return count
}
