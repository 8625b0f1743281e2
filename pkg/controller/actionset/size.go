// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
)

const (
	// maxObject is the maximum size of an ActionSet with all outputs of its phases, in bytes of JSON. etcd rejects a request of 1.5 MiB: the rest
	// is for managedFields, for states and times that change, and for messages of failures.
	maxObject = 1280 << 10
	// maxMessage is the maximum length of the message of a failure, in bytes. It is in the status three times.
	maxMessage = 16 << 10
	// sizeOfState is more than a phase adds to the status by its state and its times, in bytes of JSON.
	sizeOfState = 1 << 10
	// maxSmallMessage is the same for a status that replaces a rejected one.
	maxSmallMessage = 1 << 10
)

// size returns the size of the ActionSet with its next status, in bytes of JSON.
func (t *planner) size() int {
	with := *t.o.set
	with.Status = &t.status
	return sizeOf(&with)
}

// sizeExceeded returns a message if the ActionSet would be too large with what was added to its status; "" if not. what and bytes describe the
// addition.
func (t *planner) sizeExceeded(what string, bytes int) string {
	if t.sizeBound > 0 {
		if t.sizeBound += bytes + sizeOfState; t.sizeBound <= maxObject {
			return ""
		}
	}
	size := t.size()
	if t.sizeBound = size; size <= maxObject {
		return ""
	}
	return fmt.Sprintf("%s as JSON %d bytes; the ActionSet would have %d with it, and may have %d in all. "+
		"Keep large data in a volume or an object store, and output its location; or use several ActionSets", what, bytes, size, maxObject)
}

// rawBytes returns the JSON of a field in a status; nil if there is none.
func rawBytes(raw *runtime.RawExtension) []byte {
	if raw == nil {
		return nil
	}
	return raw.Raw
}

// sizeOf returns the size of a value, in bytes of JSON.
func sizeOf(value any) int {
	content, err := json.Marshal(value)
	if err != nil {
		return 0
	}
	return len(content)
}

// shorten shortens the text of a message to maxBytes, and marks it.
func shorten(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	const mark = " ... (shortened)"
	return controller.Truncate(text, maxBytes-len(mark)) + mark
}

// decideTooLarge decides what is done after a status was rejected as too large. If nothing was started, the ActionSet is rejected. A run is
// cancelled, because its further phases would need the outputs and artifacts that its status cannot hold.
func decideTooLarge(o observed) plan {
	message := "StatusTooLarge: the API server has refused the status: " + o.statusTooLarge + ". Outputs and artifacts are left out of it"
	if !hasStarted(o.set.Status) {
		return reject(o, v1alpha1.ReasonStatusTooLarge, *invalid(message))
	}
	t := newPlanner(o, o.snapshot, reducedStatus(o.set.Status))
	t.setCondition(v1alpha1.ConditionCancelled, metav1.ConditionTrue, v1alpha1.ReasonStatusTooLarge, message)
	t.setFailure(v1alpha1.ReasonStatusTooLarge, message)
	t.recordWarning("Error", message)
	if o.snapshot == nil && !o.snapshotUnread() {
		t.failSnapshotLost()
	}
	return t.plan()
}

// reducedStatus returns a status without outputs and artifacts, and with short messages.
func reducedStatus(status *v1alpha1.ActionSetStatus) v1alpha1.ActionSetStatus {
	kept := *status.DeepCopy()
	kept.Error.Message = shorten(kept.Error.Message, maxSmallMessage)
	for i := range kept.Conditions {
		kept.Conditions[i].Message = shorten(kept.Conditions[i].Message, maxSmallMessage)
	}
	for i := range kept.Actions {
		action := &kept.Actions[i]
		action.Artifacts, action.DeferPhase.Output = nil, nil
		for p := range action.Phases {
			action.Phases[p].Output = nil
		}
	}
	return kept
}

// isReduced reports whether outputs and artifacts are left out of a status.
func isReduced(status *v1alpha1.ActionSetStatus) bool {
	cancelled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCancelled)
	return cancelled != nil && cancelled.Reason == v1alpha1.ReasonStatusTooLarge
}
