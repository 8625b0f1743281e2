// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of an application's operations: Blueprints declare them, ActionSets run them, and Profiles
// declare where data is kept. It is the API of Kanister 0.119, so that manifests written for it apply unchanged. Therefore no field is
// required, and Blueprints and Profiles have no additional fields.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.millwright.pkg.apis.cr.v1alpha1
// +kubebuilder:validation:Optional
// +groupName=cr.kanister.io
package v1alpha1
