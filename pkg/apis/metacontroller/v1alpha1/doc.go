// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of controllers whose logic is a webhook, written in any language. It is that of
// Metacontroller 4.17, so that manifests written for it apply unchanged.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.millwright.pkg.apis.metacontroller.v1alpha1
// +groupName=metacontroller.k8s.io
package v1alpha1
