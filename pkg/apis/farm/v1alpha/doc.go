// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha is the API of the farm: Llama, which is kept, and FarmPod, a view of a Pod. It is not made of CRDs: "millwright
// apiserver" serves it, behind the aggregation layer.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.millwright.pkg.apis.farm.v1alpha
// +groupName=farm.example.com
// +kubebuilder:skip
package v1alpha
