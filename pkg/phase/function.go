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
// An error that is a *Failure is how the phase ends. Any other error leaves the phase as it is: the method is called again.
type Function interface {
	// Validate checks the arguments, and returns what Start is to do. It changes nothing.
	Validate(ctx context.Context, call Call) (intent map[string]any, err error)
	// Start carries out the intent and returns how the call goes. It is called again if it may have been called before: what was
	// done is not done twice. It may do so in two steps: see Ready.
	Start(ctx context.Context, call Call) (Observation, error)
	// Poll reports how the call goes. It changes nothing.
	Poll(ctx context.Context, call Call) (Observation, error)
	// Cancel stops what Start has begun and removes what it leaves, other than its effect. It does not wait. It is called of
	// phases that have ended too, and more than once.
	Cancel(ctx context.Context, call Call) error
}

// Call is one call of a function by one phase of one run.
type Call struct {
	ID ID
	// Action that the phase belongs to.
	Action Action
	// Args are rendered. They are nil for Cancel.
	Args map[string]any
	// Intent is what was recorded last: what Validate has returned, or what was observed as ready. It is nil for Validate.
	Intent map[string]any
	// StartTime is when the intent was recorded, from when on time counts.
	StartTime time.Time
}

// Action is what a call knows of the action that it belongs to, as it was when the run started.
type Action struct {
	// Namespace that the subject is in, or that it is; "" where it is in none. Pods of phases that name no namespace run there.
	Namespace string
	// StatefulSet and Deployment are the subject; nil if it is something else.
	StatefulSet, Deployment *blueprint.Workload
	// Custom is the subject if it is of another API group than those of Kubernetes' core; nil if not.
	Custom *Custom
	// PodOverride, PodLabels and PodAnnotations are for the Pods that the phase makes.
	PodOverride               map[string]any
	PodLabels, PodAnnotations map[string]string
}

// Custom names a subject of any kind.
type Custom struct{ Group, Kind, Namespace, Name string }

// ID of a phase, the only one in the cluster. What functions make carries it.
type ID struct {
	// Namespace, Name and UID are those of the ActionSet.
	Namespace, Name string
	UID             types.UID
	// Action is the index of the action, Phase that of the phase in it, or Deferred.
	Action, Phase int
}

// Deferred is the index of a deferPhase.
const Deferred = -1

// String is for labels and logs: the indexes, as in 0.2 or 0.defer.
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
	// Ready: what was made does nothing before the Intent of the observation is recorded in the place of the one before, and Start is
	// called again. Where an object has to be made before it can be distinguished from another one, as by its UID, this is the fence: of what
	// several processes may have made, only what is recorded ever goes.
	Ready State = "ready"
	// Running: it is under way.
	Running State = "running"
	// Succeeded and Failed: it has ended by itself.
	Succeeded State = "succeeded"
	Failed    State = "failed"
	// Stopped: it was cancelled, and nothing of it runs any more.
	Stopped State = "stopped"
	// Lost: it was started, or may have been, and what has become of it cannot be found out any more.
	Lost State = "lost"
)

// Observation is how a call goes.
type Observation struct {
	State State
	// Intent to be recorded of a call that is ready.
	Intent map[string]any
	// Output of a call that has succeeded.
	Output map[string]any
	// Message is why it has failed.
	Message string
	// Progress of a call that runs.
	Progress Progress
	// Waiting is what a call waits for that has not ended.
	Waiting Waiting
	// PollAfter is the delay of the next poll if no change is noticed before; 0 for none.
	PollAfter time.Duration
}

// Waiting is what a call waits for, for users to read.
type Waiting struct {
	// For is what has to happen, as in "Pod shop/x to be scheduled". It stays the same as long as that is waited for: it has no counts and no
	// times in it. "" is that nothing is known.
	For string
	// Details are why it has not happened. They may change at any time.
	Details string
}

// Progress of a call. All is zero where nothing is known.
type Progress struct {
	// Percent is 0 to 100.
	Percent int
	// Sizes are in bytes.
	SizeDownloaded, SizeUploaded, EstimatedDownloadSize, EstimatedUploadSize int64
	// EstimatedTime is how long the rest may take.
	EstimatedTime time.Duration
}

// Leaver is a Function of which something may be left when its phase has ended, for Cancel to remove.
type Leaver interface {
	Function
	// Left reports whether something of the call exists. Where no cache has it, the API server is asked.
	Left(ctx context.Context, call Call) (bool, error)
}
