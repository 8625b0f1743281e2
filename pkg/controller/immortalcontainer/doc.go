// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package immortalcontainer keeps one Pod alive for every ImmortalContainer, and never two.
//
// It watches ImmortalContainers and the Pods with our managed-by label. It writes Pods (create, delete, the label if another client has
// removed it, and the owner of an orphan), the status subresource of ImmortalContainers, and events.
//
// A start is reserved, then executed: before a Pod is created, a status write with a resourceVersion precondition increases
// status.startTimes. Any process that finds a reservation whose Pod was never seen completes it under the same number. So a crash, a
// lost answer or a second instance never makes a start that is not counted, or counts one twice. The Pod's name is fixed, so there are
// never two Pods.
//
// States of one sync: no Pod (start, back off, or suspended); ours and live (nothing to do, or replace, or stop); ours and
// finished (record, delete, back off); ours and terminating (wait); of an earlier object of this name (wait); left by an earlier
// object without an owner (adopt); not ours (Conflict). decide in plan.go is that table.
//
// +kubebuilder:rbac:groups=immortalcontainers.flugel.it,resources=immortalcontainers,verbs=get;list;watch
// +kubebuilder:rbac:groups=immortalcontainers.flugel.it,resources=immortalcontainers/status,verbs=update
// +kubebuilder:rbac:groups=immortalcontainers.flugel.it,resources=immortalcontainers/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;delete;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
package immortalcontainer
