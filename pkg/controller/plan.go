// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package controller

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Plan is one decision of a sync. It is data: pure code builds it, and Reconcile applies it. A plan has either asks, or steps and a delay.
type Plan struct {
	// Asks are answered first, and then the sync decides again.
	Asks []Ask
	// Steps are applied in order. The first that fails ends the sync.
	Steps []Step
	// Again reports whether the sync decides again when the steps are applied.
	Again bool
	// RequeueAfter is the delay after which the key is synced again if nothing happens earlier; 0 for never.
	RequeueAfter time.Duration
}

// Ask is a question that the caches do not answer, such as what the live object is. An answer changes nothing but what is observed. The text
// is for logs.
type Ask interface{ String() string }

// Step is one effect of a plan. The text is for logs, and holds no secrets.
type Step interface{ String() string }

// RecordEvent is the step that records an event on the object that is synced.
type RecordEvent struct{ Type, Reason, Message string }

// String implements Step.
func (e RecordEvent) String() string {
	return fmt.Sprintf("event %s %s %q", e.Type, e.Reason, e.Message)
}

// NormalEvent returns the step that records an event of the type Normal.
func NormalEvent(reason, format string, args ...any) RecordEvent {
	return RecordEvent{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

// WarningEvent returns the step that records an event of the type Warning.
func WarningEvent(reason, format string, args ...any) RecordEvent {
	return RecordEvent{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

// EarliestDelay returns the shortest of the delays, of which those that are not positive are none; 0 if all are none.
func EarliestDelay(delays ...time.Duration) (earliest time.Duration) {
	for _, delay := range delays {
		if delay > 0 && (earliest == 0 || delay < earliest) {
			earliest = delay
		}
	}
	return earliest
}
