// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// specHash returns the hash of what the user asked to run: image and template, without what the controller adds. A Pod is
// replaced when it changes. A golden test pins it.
func specHash(spec v1alpha1.ImmortalContainerSpec) string {
	return controller.Hash(struct {
		Image    string                  `json:"image"`
		Template *corev1.PodTemplateSpec `json:"template"`
	}{spec.Image, spec.Template})
}
