// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package composite hosts CompositeControllers: controllers whose logic is a webhook. Package parent, below it, syncs their parents. One loop
// syncs all of them; its keys are CompositeControllers and parents, and in its queue the CompositeControllers take turns.
//
// A CompositeController is compiled, its parents and children are watched, and its parents are synced once the caches are filled. A new generation
// of its spec, or another answer of discovery, replaces what is hosted. It watches CompositeControllers and CustomResourceDefinitions, and
// writes the status and the finalizer of CompositeControllers.
//
//	controller.go      the struct, New, Run, and the interface to package parent
//	sync.go            the sync of a CompositeController: host, replace, start, stop
//	discovery.go       which resources the API server serves, and when it is asked again
//	overlap.go         which CompositeControllers the change of one affects
//	builtin.go         which parents are left to another controller of Millwright
//	finalizers.go      the finalizers of a CompositeController and of its parents
//	formerparents.go   the former types of parents, whose finalizers are removed (pure)
//	status.go          the status (pure)
//	events.go          event reasons (pure)
//	apply.go           the writes
//	standby.go         the watches of a process that is not the leader
//	metrics.go         the metrics
//
// The engine has the rights on parents and children that ClusterRoles with the label millwright.dev/aggregate-to-engine grant.
//
// +kubebuilder:rbac:groups=metacontroller.k8s.io,resources=compositecontrollers,verbs=list;patch;watch
// +kubebuilder:rbac:groups=metacontroller.k8s.io,resources=compositecontrollers/status,verbs=update
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package composite
