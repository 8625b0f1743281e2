// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/blueprint"
)

// Function is one function that phases call. Its methods may be called for many phases at a time.
//
// An error that is a *Failure ends the phase. Any other error leaves the phase as it is: the method is called again.
type Function interface {
	// Validate checks the arguments, and returns what Start will do. It changes nothing.
	Validate(ctx context.Context, call Call) (intent map[string]any, err error)
	// Start carries out the intent and returns the state of the call. It may be called again after a crash: what was done is not done
	// twice. It may have two steps: see Ready.
	Start(ctx context.Context, call Call) (Observation, error)
	// Poll reports the state of the call. It changes nothing.
	Poll(ctx context.Context, call Call) (Observation, error)
	// Cancel stops what Start has begun and removes what it leaves, other than its effect. It does not wait. It is also called for
	// phases that have ended, and may be called more than once.
	Cancel(ctx context.Context, call Call) error
}

// Call is one call of a function by one phase of one run.
type Call struct {
	ID ID
	// Action that the phase belongs to.
	Action Action
	// Cancelled: for Poll, the call is about to be cancelled, or is. It is not observed further than is needed to find out whether it has stopped.
	Cancelled bool
	// Args are rendered. They are nil for Cancel, and for Poll of a function that does not observe them.
	Args map[string]any
	// Intent is what was recorded last: what Validate has returned, or what was observed as ready. It is nil for Validate.
	Intent map[string]any
	// StartTime is when the intent was recorded. Timeouts begin then.
	StartTime time.Time
}

// Action is the action that a call belongs to, as of the start of the run.
type Action struct {
	// Namespace of the subject, or its name if it is a Namespace; "" if it is cluster-scoped. Pods of phases that name no namespace run there.
	Namespace string
	// StatefulSet and Deployment are the subject; nil if it is of another kind.
	StatefulSet, Deployment *blueprint.Workload
	// Custom is the subject if its kind has an API group; nil if not.
	Custom *Custom
	// PodOverride, PodLabels and PodAnnotations are for the Pods that the phase makes.
	PodOverride               map[string]any
	PodLabels, PodAnnotations map[string]string
}

// Custom names a subject of any kind.
type Custom struct{ Group, Kind, Namespace, Name string }

// ID identifies a phase in the cluster. The objects that functions make have it in their labels.
type ID struct {
	// Namespace, Name and UID are those of the ActionSet.
	Namespace, Name string
	UID             types.UID
	// Action is the index of the action, Phase that of the phase in it, or Deferred.
	Action, Phase int
}

// Deferred is the index of a deferPhase.
const Deferred = -1

// String returns the indexes, as in 0.2 or 0.defer, for labels and logs.
func (id ID) String() string {
	if id.Phase == Deferred {
		return fmt.Sprintf("%d.defer", id.Action)
	}
	return fmt.Sprintf("%d.%d", id.Action, id.Phase)
}

// State of a call.
type State string

const (
	// Unknown: the state is not known at the moment.
	Unknown State = ""
	// Idle: nothing was done yet.
	Idle State = "idle"
	// Ready: what was made does nothing until the Intent of the observation is recorded instead of the one before, and Start is called
	// again. If an object is identified by its UID, it has to be made before it can be recorded. Then this is the fence: several processes may
	// have made objects, and only the recorded one is started.
	Ready State = "ready"
	// Running: it has not ended.
	Running State = "running"
	// Succeeded and Failed: it has ended by itself.
	Succeeded State = "succeeded"
	Failed    State = "failed"
	// Stopped: it was cancelled, and nothing of it runs any more.
	Stopped State = "stopped"
	// Lost: it was started, or may have been started, and its result cannot be determined.
	Lost State = "lost"
)

// Observation is the observed state of a call.
type Observation struct {
	State State
	// Intent to be recorded if the call is ready.
	Intent map[string]any
	// Output of a call that has succeeded.
	Output map[string]any
	// Message is why the call has failed.
	Message string
	// Progress of a running call.
	Progress Progress
	// Waiting is what the call waits for, if it has not ended.
	Waiting Waiting
	// PollAfter is the delay of the next poll if no change is observed before; 0 for none.
	PollAfter time.Duration
}

// Waiting is what a call waits for, for users to read.
type Waiting struct {
	// For is what has to happen, as in "Pod shop/x to be scheduled". It contains no counts and no times, so that it stays the same while the
	// call waits for it. It is "" if nothing is known.
	For string
	// Details are why it has not happened. They may change at any time.
	Details string
}

// Progress of a call. Fields that are not known are zero.
type Progress struct {
	// Percent is 0 to 100.
	Percent int
	// Sizes are in bytes.
	SizeDownloaded, SizeUploaded, EstimatedDownloadSize, EstimatedUploadSize int64
	// EstimatedTime is the estimated time until the end of the call.
	EstimatedTime time.Duration
}

// Leaver is a Function that may have left something when its phase has ended. Cancel removes it.
type Leaver interface {
	Function
	// Left reports whether something of the call exists. If no cache has it, Left asks the API server.
	Left(ctx context.Context, call Call) (bool, error)
}
