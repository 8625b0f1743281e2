// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of the useless machine: Machine and Switch. Whatever flips a Switch, its Machine moves it
// back down, patiently, one at a time.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.millwright.pkg.apis.useless.v1alpha1
// +groupName=useless.container.training
package v1alpha1
