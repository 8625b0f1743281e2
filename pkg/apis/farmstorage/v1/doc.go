// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is how the API server of the farm keeps its objects: each in a record, a custom resource that nobody else writes. It
// is no API for users.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.millwright.pkg.apis.farmstorage.v1
// +groupName=storage.farm.example.com
// +groupGoName=FarmStorage
package v1
