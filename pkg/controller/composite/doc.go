// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package composite decides what becomes of the parents and children of a CompositeController, whose logic is a webhook.
//
// It is pure: it is given what was observed, and says what to do. A sync of one parent goes so:
//
//	compile          (rules.go)    once for each spec: what it says, or why it cannot be served
//	counts, matters  (parent.go)   which parents and which changes of them lead to a sync
//	open             (parent.go)   our finalizer, and which hook is called, if any
//	selectorOf, claim (claim.go)   which observed objects are children, and which are to be adopted or released
//	hookConfig, controllerJSON, decodingRules (hooks.go)   how the hook is called, and by what its answer is judged
//	conclude         (plan.go)     the answer as a plan: finalizer, children, status. All of it is refused, or none
//	done, statusDone (memory.go, status.go)   what a write has taught
//	eventsOf         (events.go)   what happened to children, in few events
//	controllerStatus (status.go)   how the controller itself does, as its condition Ready
//
// A child of which the same is desired, in the version in which nothing was to be done, is not looked at again. A difference
// that comes back after each write is written against ever more rarely, and a child is deleted for it twice at most.
//
// Of parents and children the engine has those rights that the ClusterRoles with the label millwright.dev/aggregate-to-engine give.
//
// +kubebuilder:rbac:groups=metacontroller.k8s.io,resources=compositecontrollers,verbs=list;watch
// +kubebuilder:rbac:groups=metacontroller.k8s.io,resources=compositecontrollers/status,verbs=update
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package composite
