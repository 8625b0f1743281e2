// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the HelloApp API: an app from two fields, an image and how many.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.millwright.pkg.apis.apps.v1
// +groupName=apps.anupam.com
package v1
