// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package engine

import "millwright.dev/pkg/apis/metacontroller/v1alpha1"

// Event reasons.
const (
	eventStarting    = "Starting"
	eventStarted     = "Started"
	eventStopping    = "Stopping"
	eventStopped     = "Stopped"
	eventCreateError = "CreateError"
	eventSyncError   = "SyncError"
)

// warningReasons are the reasons of the condition Ready for which an event is recorded, too, when they appear.
var warningReasons = []string{v1alpha1.ReasonParentsOverlap, v1alpha1.ReasonNeverSettles, v1alpha1.ReasonWatchStalled, v1alpha1.ReasonAdoptionRefused,
	v1alpha1.ReasonFinalizersRemain, v1alpha1.ReasonParentsFailing}
