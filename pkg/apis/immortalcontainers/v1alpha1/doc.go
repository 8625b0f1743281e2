// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the ImmortalContainer API: a container that always runs, exactly once.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.millwright.pkg.apis.immortalcontainers.v1alpha1
// +groupName=immortalcontainers.flugel.it
package v1alpha1
