// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package composite is the controller of CompositeControllers. It watches them and what they declare, parents and children, calls their hooks, and writes
// what these desire. All of that is in package engine, which DecoratorControllers and CompositeControllers share.
//
// +kubebuilder:rbac:groups=metacontroller.k8s.io,resources=compositecontrollers,verbs=list;patch;watch
// +kubebuilder:rbac:groups=metacontroller.k8s.io,resources=compositecontrollers/status,verbs=update
// +kubebuilder:rbac:groups=metacontroller.k8s.io,resources=controllerrevisions,verbs=create;delete;list;update;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package composite
