// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"slices"
	"time"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
)

const (
	// stopLimit is how long a cancelled phase may take to stop. After that the run continues without it.
	stopLimit = time.Minute
	// deferLimit is how long a deferPhase may take in a run that is cancelled.
	deferLimit = 5 * time.Minute
	// progressInterval is how often the progress of phases is written, if nothing else is.
	progressInterval = 5 * time.Second
)

// plan is a controller.Plan: it asks, or it has steps. If a step fails, the steps after it are not applied. The steps of phases (startPhase,
// cancelPhase, cleanUp) are consecutive, and a failure of one of them does not affect the others.
type plan struct {
	controller.Plan
	// retry: a look-up has failed, so the sync is retried, with backoff.
	retry bool
}

// planOf returns the plan that has these steps.
func planOf(steps ...controller.Step) plan { return plan{Plan: controller.Plan{Steps: steps}} }

// planAsking returns the plan that asks.
func planAsking(asks ...controller.Ask) plan { return plan{Plan: controller.Plan{Asks: asks}} }

type (
	// lookUpSubjects asks for the subjects of all actions, and for the other objects that they name. room is how large the subjects may be together,
	// in bytes of JSON.
	lookUpSubjects struct{ room int }
	// preparePhase asks for the intent of a phase, from this snapshot and with the outputs in this status of its action.
	preparePhase struct {
		key      phaseKey
		snapshot *snapshot
		status   *v1alpha1.ActionStatus
	}
	// pollPhase asks for the state of a running phase. stopping: the phase is about to be cancelled, or is.
	pollPhase struct {
		key      phaseKey
		stopping bool
	}
	// renderArtifacts asks for the artifacts of an action, with the outputs in its status. begins: it has no phases, and ends when it begins.
	renderArtifacts struct {
		action   int
		snapshot *snapshot
		status   *v1alpha1.ActionStatus
		begins   bool
	}
)

func (lookUpSubjects) String() string { return "find the subjects" }
func (a preparePhase) String() string { return "prepare phase " + a.key.String() }
func (a pollPhase) String() string    { return "poll phase " + a.key.String() }
func (a renderArtifacts) String() string {
	return fmt.Sprintf("render the artifacts of action %d", a.action)
}

type (
	// addFinalizer and removeFinalizer have the resourceVersion as a precondition. So has keepFinalizer, which changes nothing: it fails if the cache is stale.
	addFinalizer    struct{}
	keepFinalizer   struct{}
	removeFinalizer struct{}
	// createSnapshot creates the Secret with the snapshot. A Secret that has this name already is used only if its content is the same.
	createSnapshot struct{ snapshot *snapshot }
	// deleteSnapshot deletes that Secret.
	deleteSnapshot struct{}
	// writeStatus writes the status, with the resourceVersion as a precondition. If the status has a snapshot without a UID, it gets the UID
	// of the Secret that was created just before.
	writeStatus struct{ status v1alpha1.ActionSetStatus }
	// startPhase carries out the intent in the status. The next plan is decided from what is observed after it.
	startPhase struct{ key phaseKey }
	// cancelPhase stops a phase. If ignoreFailure is true, nothing depends on its success.
	cancelPhase struct {
		key           phaseKey
		ignoreFailure bool
	}
	// cleanUp removes what an ended phase has left behind.
	cleanUp struct{ key phaseKey }
)

func (addFinalizer) String() string    { return "add the finalizer" }
func (keepFinalizer) String() string   { return "keep the finalizer" }
func (removeFinalizer) String() string { return "remove the finalizer" }
func (createSnapshot) String() string  { return "create the snapshot" }
func (deleteSnapshot) String() string  { return "delete the snapshot" }
func (s writeStatus) String() string   { return "write status " + describeStatus(&s.status) }
func (s startPhase) String() string    { return "start phase " + s.key.String() }
func (s cancelPhase) String() string   { return "cancel phase " + s.key.String() }
func (s cleanUp) String() string       { return "clean up phase " + s.key.String() }

// String implements controller.Step. The message is left out: it may contain the last lines that a command has printed.
func (s recordEvent) String() string {
	on := ""
	if s.blueprint != "" {
		on = " on Blueprint " + s.blueprint
	}
	return fmt.Sprintf("event%s %s %q", on, s.eventType, s.reason)
}

// decide is the table of states.
func decide(o observed) plan {
	deleting := o.set.DeletionTimestamp != nil
	switch {
	case deleting && (o.namespaceTerminating || o.unwritable):
		return decideTerminating(o)
	case hasFinished(o.set.Status):
		return decideFinished(o)
	case foreignEnded(o.set.Status):
		return planOf(finishSteps(o)...)
	case o.namespaceTerminating:
		return plan{} // nothing can be created in the namespace, and the ActionSet will be deleted
	case hasStarted(o.set.Status) && o.snapshotUnread():
		return decideUnread(o)
	case hasStarted(o.set.Status):
		return decideRunning(o)
	case deleting:
		return planOf(finishSteps(o)...) // this controller has created the snapshot at most
	case foreignStarted(o.set.Status):
		return decideForeign(o)
	default:
		return decideStart(o)
	}
}

// finalizerSteps adds or removes the finalizer, as wanted.
func finalizerSteps(o observed, wanted bool) []controller.Step {
	has := slices.Contains(o.set.Finalizers, Finalizer)
	switch {
	case has && !wanted:
		return []controller.Step{removeFinalizer{}}
	case !has && wanted && o.set.DeletionTimestamp == nil:
		return []controller.Step{addFinalizer{}}
	default:
		return nil
	}
}
