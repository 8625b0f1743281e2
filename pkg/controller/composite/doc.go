// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package composite serves CompositeControllers: controllers whose logic is a webhook. There is one loop for all of them, whose keys are
// CompositeControllers and their parents; in its queue they take turns.
//
//	controller.go    the loop, and what is shared by all
//	serve.go, health.go      the sync of a CompositeController: hosts it, ends to, and writes its status
//	discovery.go     which resources the API server serves, and when to ask it again
//	finalizers.go    a CompositeController that is deleted takes its finalizers from all parents first
//	formerparents.go the types that parents were of before, whose finalizers are removed
//	hosting.go       what is held for one that is served: watches, hooks, what is known of parents
//	changes.go, orphans.go, blocked.go, rivals.go   which parents, and CompositeControllers, a change concerns
//	sync.go, gather.go       the sync of a parent: gathers, calls the hook
//	adopt.go, apply.go, denied.go   writes, by package objectwriter, and what the engine may not write
//	failures.go      parents whose hook fails, told in the status of the CompositeController
//	toolarge.go      what is larger than the API server accepts
//	standby.go       what a process watches that does not lead
//	metrics.go, hookmetrics.go, childmetrics.go   what is counted
//
// What is decided is pure: it is given what was observed, and says what to do. For one parent that goes so:
//
//	compile          (rules.go)    once for each spec: what it says, or why it cannot be served
//	overlapOf        (overlap.go)  which parents, or whose status, are left to an older CompositeController
//	counts, matters  (parent.go)   which parents and which changes of them lead to a sync
//	open             (parent.go)   our finalizer, and which hook is called, if any
//	selectorOf, claim (claim.go)   which observed objects are children, and which are to be adopted or released
//	hookConfig, controllerJSON, decodingRules (hooks.go)   how the hook is called, and by what its answer is judged
//	differencesOf, futile (recreation.go) whether a child that is created again would be another one
//	conclude         (plan.go)     the answer as a plan: finalizer, children, status. All of it is refused, or none
//	pace             (settling.go) holds back the answers of a hook that never settles
//	done, statusDone (memory.go, status.go)   what a write has taught
//	eventsOf         (events.go)   what happened to children, in few events
//	controllerStatus (status.go)   how the controller itself does, as its condition Ready
//
// A child of which the same is desired, in the version in which nothing was to be done, is not looked at again. A difference
// that comes back after each write is written against ever more rarely. A child is not deleted for a difference that it had when it was
// created, and would have again: the child shows that, or a dry run (recreation.go), not what a process remembers. What another client changes
// back each time is repaired ever more rarely, too (controller.RewriteBackoff).
//
// Of parents and children the engine has those rights that the ClusterRoles with the label millwright.dev/aggregate-to-engine give.
//
// +kubebuilder:rbac:groups=metacontroller.k8s.io,resources=compositecontrollers,verbs=list;patch;watch
// +kubebuilder:rbac:groups=metacontroller.k8s.io,resources=compositecontrollers/status,verbs=update
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package composite
