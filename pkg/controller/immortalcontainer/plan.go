// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package immortalcontainer

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
)

// readPod is the ask for the live Pod of our Pod's name.
type readPod struct{}

func (readPod) String() string { return "read the live Pod" }

// Steps.
type (
	// writeStatus writes the status, guarded by the resourceVersion.
	writeStatus struct {
		status v1alpha1.ImmortalContainerStatus
	}
	// createPod creates the Pod of a start. The cause is only for a metric. A start after a pause belongs to the same contest as the
	// start before it.
	createPod struct {
		start      int64
		cause      startCause
		afterPause bool
	}
	// deletePod deletes the Pod with its normal grace period, guarded by the UID.
	deletePod struct{ uid types.UID }
	// adoptPod makes the live ImmortalContainer the controller of an orphan of this UID.
	adoptPod struct{ uid types.UID }
	// labelPod restores our labels on our Pod, guarded by the UID.
	labelPod struct{ uid types.UID }
)

func (s writeStatus) String() string { return fmt.Sprintf("write status %+v", s.status) }
func (s createPod) String() string   { return fmt.Sprintf("create the Pod of start %d", s.start) }
func (s deletePod) String() string   { return fmt.Sprintf("delete Pod %s", s.uid) }
func (s adoptPod) String() string    { return fmt.Sprintf("adopt Pod %s", s.uid) }
func (s labelPod) String() string    { return fmt.Sprintf("label Pod %s", s.uid) }

// decide is the table of states.
func decide(o observed) controller.Plan {
	if o.container.DeletionTimestamp != nil {
		return controller.Plan{} // the garbage collector deletes the Pod
	}
	switch ownership := o.ownership(); {
	case ownership == controller.None:
		return withoutPod(o)
	case ownership == controller.Orphaned:
		return adopt(o)
	case ownership == controller.Foreign:
		return conflict(o)
	case !metav1.IsControlledBy(o.pod, o.container):
		return waitForEarlier(o)
	case o.pod.Labels[controller.LabelManagedBy] != controller.ManagedBy:
		// Also if it terminates: otherwise no watch shows when it is gone.
		return controller.Plan{Steps: []controller.Step{labelPod{o.pod.UID}}}
	case ownership == controller.Terminating:
		return waitForTermination(o)
	case o.pod.UID == o.memory.deleting:
		return controller.Plan{} // the watch will show that it terminates
	case finished(o.pod):
		return recordTermination(o)
	case o.container.Spec.Suspend:
		return stop(o)
	case o.pod.Annotations[AnnotationSpecHash] != wantedHash(o.container):
		return replace(o)
	default:
		return reportRunning(o)
	}
}
