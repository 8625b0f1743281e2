// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machine gives every Machine its switches and keeps them down: whatever flips one, it is moved back a few seconds
// after it was seen up, and never more than one per Machine every few seconds.
//
// It watches Machines and Switches. It writes Switches (create, delete, the ownerReferences of those it adopts and
// releases, the position of one that it flips, and their status), the lever and the status of Machines, and events.
//
// A sync goes through the stages that decide in plan.go returns one after the other: the lever, the scale (which switches are ours, and as
// many as wanted), the stamps (when each was seen up), and the end: the events, the status, and one flip at most. Each stage is decided from
// the outcome of those before it. A sync changes a hundred switches of each sort at most, and leaves the rest to the next one.
//
// The event of a Switch queues the Machine that controls it. If other Machines may have to know, it queues those with a selector that matches, or
// the namespace, whose sync finds them, if more than a few selectors would have to be matched: keys.go decides that.
//
// A flip is reserved, then done: a status write, guarded by the resourceVersion of the Machine, records the Switch and its
// resourceVersion, and the flip is a patch that only this version accepts. Any process that finds a reservation completes it. It is
// closed only when it is proven that its version is no longer the newest: from then on a flip that was reserved with it
// has no effect, however late it arrives. The interval to the next flip begins when the reservation is closed. flip.go has the
// protocol.
//
// +kubebuilder:rbac:groups=useless.container.training,resources=machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=useless.container.training,resources=machines/status,verbs=update
// +kubebuilder:rbac:groups=useless.container.training,resources=machines/finalizers,verbs=update
// +kubebuilder:rbac:groups=useless.container.training,resources=switches,verbs=get;list;watch;create;delete;patch
// +kubebuilder:rbac:groups=useless.container.training,resources=switches/status,verbs=update
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package machine
