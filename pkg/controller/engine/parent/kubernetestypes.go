// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"slices"

	"k8s.io/client-go/kubernetes/scheme"
)

// isOfKubernetes reports whether Kubernetes itself serves the type. CustomResourceDefinitions may have groups that end in .k8s.io, too.
func (r Resource) isOfKubernetes() bool {
	return scheme.Scheme.IsGroupRegistered(r.Group) || slices.Contains(extensionGroups, r.Group)
}

// extensionGroups are the groups of Kubernetes whose types have clients of their own.
var extensionGroups = []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}
