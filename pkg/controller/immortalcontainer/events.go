// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// Event reasons.
const (
	eventStarted      = "Started"
	eventAdopted      = "Adopted"
	eventTerminated   = "Terminated"
	eventBackingOff   = "BackingOff"
	eventReplaced     = "Replaced"
	eventSuspended    = "Suspended"
	eventCreateFailed = "FailedCreate"
)

func terminationEvents(status v1alpha1.ImmortalContainerStatus) []controller.Step {
	termination := status.LastTermination
	eventType, message := corev1.EventTypeWarning, fmt.Sprintf("Pod %s terminated: %s", termination.Pod, termination.Reason)
	if termination.ExitCode != nil {
		message += fmt.Sprintf(", exit code %d", *termination.ExitCode)
		if *termination.ExitCode == 0 {
			eventType = corev1.EventTypeNormal
		}
	}
	steps := []controller.Step{controller.RecordEvent{Type: eventType, Reason: eventTerminated, Message: message}}
	if status.NextStartTime != nil {
		steps = append(steps, controller.NormalEvent(eventBackingOff, "%s", backingOffMessage(&status)))
	}
	return steps
}

func suspendedEvent(o observed) []controller.Step {
	if isProgressing(&o.container.Status, v1alpha1.ReasonSuspended) {
		return nil
	}
	return []controller.Step{controller.NormalEvent(eventSuspended, "Suspended: no Pod runs until spec.suspend is false")}
}
