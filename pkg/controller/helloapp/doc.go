// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helloapp runs every HelloApp as a Deployment of its name, and as a Service if it has a port.
//
// It watches HelloApps, and the Deployments and Services that carry our managed-by label. It writes those two by
// server-side apply, the status subresource of HelloApps, and events.
//
// A sync has two halves. bringUp (plan.go) brings Deployment and Service to the desired state; mirror (status.go) shows
// in the status what exists then. The first apply of an object can only create it: if the name is taken, one live read shows its
// ownership. Every later apply is forced, and accepted only for the object that was observed.
//
// What has the name that we need has an ownership (controller.Ownership): None (create), Owned (repair), Orphaned (adopt), Terminating
// (wait), or Foreign (Conflict: never changed). drift.go finds what differs from the spec. What another client reverts each time is repaired
// with a growing delay (contest.go).
//
// +kubebuilder:rbac:groups=apps.anupam.com,resources=helloapps,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.anupam.com,resources=helloapps/status,verbs=update
// +kubebuilder:rbac:groups=apps.anupam.com,resources=helloapps/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package helloapp
