// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machine gives every Machine its switches and keeps them down: whatever flips one, it is moved back a few seconds
// after it was seen, and never more than one per Machine every few seconds.
//
// It watches Machines and Switches. It writes Switches (create, delete, the ownerReferences of those it adopts and
// releases, the position of one that it flips, and their status), the lever and the status of Machines, and events.
//
// A sync goes through the stages of follow in plan.go: the lever, the claim (which switches are ours), the scale (as many as
// wanted), the stamps (when each was seen up), and the end: the status, and one flip at most.
//
// A flip is reserved, then done: a status write, guarded by the resourceVersion of the Machine, records the Switch and its
// resourceVersion, and the flip is a patch that only this version accepts. Whoever finds a reservation completes it. It is
// closed only when it is proven that its version is no longer the newest: from then on a flip that was reserved with it
// comes to nothing, however late it arrives. That closing is where the interval to the next flip begins. flip.go has the
// protocol.
//
// +kubebuilder:rbac:groups=useless.container.training,resources=machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=useless.container.training,resources=machines/status,verbs=update
// +kubebuilder:rbac:groups=useless.container.training,resources=machines/finalizers,verbs=update
// +kubebuilder:rbac:groups=useless.container.training,resources=switches,verbs=get;list;watch;create;delete;patch
// +kubebuilder:rbac:groups=useless.container.training,resources=switches/status,verbs=update
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package machine
