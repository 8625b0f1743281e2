// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podwire reads Pods as kube-apiserver sends them, and of each only what a FarmPod shows. Half of a Pod is who has written
// which of its fields, and most of the rest is how to run it: to make all of that and throw it away took most of the time of a list.
//
// The format is the one of k8s.io/apimachinery/pkg/runtime/serializer/protobuf. The numbers of the fields are those of generated.proto
// in k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1, which never change within a version. Others are passed over.
//
// A list is read while it comes in, Pod by Pod: it is never held as a whole.
package podwire
