// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 has the types in which the API server of the farm stores its objects: each object in one record, a custom resource that
// only this API server writes. It is not an API for users.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.millwright.pkg.apis.farmstorage.v1
// +groupName=storage.farm.example.com
// +groupGoName=FarmStorage
package v1
