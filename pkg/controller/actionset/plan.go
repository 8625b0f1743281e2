// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"slices"
	"time"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

const (
	// stopLimit is how long a phase that is cancelled may take to stop. Then the run goes on without it.
	stopLimit = time.Minute
	// deferLimit is how long a deferPhase may take in a run that is cancelled.
	deferLimit = 5 * time.Minute
	// progressInterval is how often the progress of phases is written, if nothing else is.
	progressInterval = 5 * time.Second
)

// observed is all that is decided from. Nothing of it is changed.
type observed struct {
	set *v1alpha1.ActionSet
	// blueprints that the ActionSet names, by name: those that there are.
	blueprints map[string]*v1alpha1.Blueprint
	// run is the frozen one, nil if there is none: not in the cache, and not on the API server. Where its Secret cannot be used, damage
	// says why.
	snapshot    *snapshot
	snapshotDamage string
	// snapshot identifies the Secret of the run, where that was read or created in this process; nil otherwise.
	snapshotID *v1alpha1.RunSnapshot
	// stray: the run has ended, and a Secret that says that it is the frozen one is there, from which it was not started.
	foreignSnapshot bool
	// adopted: another process may have begun with the run, and have ended while it rendered templates.
	takenOver bool
	// unfrozen is why the run cannot be frozen at the moment.
	snapshotRefusal string
	// leftovers are the phases of which something was found that Cancel removes.
	leftovers []phaseKey
	// namespaceGoes: the namespace is being terminated.
	namespaceTerminating bool
	// identity of this process.
	executor string
	// said is the name of the last event that this process has recorded.
	recordedEvent string
	// tooLarge is why the API server has refused a status as too large, and unwritable that it has refused a small one too.
	statusTooLarge   string
	unwritable bool
	// now is the same in all decisions of one sync.
	now time.Time

	// What follows is the answers to asks.

	// subjects of the actions, nil if they were not asked for.
	subjects []foundSubject
	// prepared are phases that may start.
	prepared map[phaseKey]preparation
	// polled are phases that run.
	polled map[phaseKey]phase.Observation
	// waiting is what phases wait for that were polled or prepared.
	waiting map[phaseKey]waiting
	// artifacts of actions that have ended well.
	artifacts map[int]renderedArtifacts
}

// phaseKey is a phase of an ActionSet; phase may be phase.Deferred.
type phaseKey struct{ action, phase int }

func (k phaseKey) String() string { return phase.ID{Action: k.action, Phase: k.phase}.String() }

// An outcome of reading something: it was read, or it cannot be used, or nobody can tell at the moment.
type lookupResult struct {
	// failure says why it cannot be used.
	failure string
	// unknown: it is to be tried again, and why says what was in the way.
	retry bool
	why     string
}

// foundSubject is the subject of one action, with what the objects of its phases refer to, by the index of the phase. All that the
// action names is there.
type foundSubject struct {
	lookupResult
	subject subject
	objects map[int]map[string]v1alpha1.ObjectReference
}

// preparation of a phase: its arguments were rendered, and its function has said what it is about to do.
type preparation struct {
	lookupResult
	// initFailure says why the objects of the phase cannot be read.
	initFailure string
	intent      map[string]any
}

// renderedArtifacts are the output artifacts of one action.
type renderedArtifacts struct {
	lookupResult
	artifacts map[string]v1alpha1.Artifact
}

// plan is what to learn first, or what to do.
type plan struct {
	// asks are to be answered before anything is decided. There are no steps then.
	asks []ask
	// steps in order. If one of them fails those after it are left out; but phases are started, cancelled and cleaned up whatever
	// becomes of the others.
	steps []step
	// requeueAfter is when to look again if nothing happens before, if more than zero.
	requeueAfter time.Duration
	// unknown: something could not be told. To be tried again, ever more rarely.
	retry bool
	// again: there is more to decide when the steps are done.
	again bool
}

// ask is one of the types below. An answer changes nothing.
type ask interface{ String() string }

type (
	// findSubjects reads the subjects of all actions and what else they name.
	lookUpSubjects struct{}
	// prepare a phase, of that run and with the outputs of that status.
	preparePhase struct {
		key    phaseKey
		snapshot    *snapshot
		status *v1alpha1.ActionSetStatus
	}
	// poll a phase that runs.
	pollPhase struct{ key phaseKey }
	// renderArtifacts of an action, with the outputs of that status.
	renderArtifacts struct {
		action int
		snapshot    *snapshot
		status *v1alpha1.ActionSetStatus
	}
)

func (lookUpSubjects) String() string { return "find the subjects" }
func (a preparePhase) String() string    { return "prepare phase " + a.key.String() }
func (a pollPhase) String() string       { return "poll phase " + a.key.String() }
func (a renderArtifacts) String() string {
	return fmt.Sprintf("render the artifacts of action %d", a.action)
}

// step is one of the types below.
type step interface{ String() string }

type (
	// addFinalizer and removeFinalizer are guarded by the resourceVersion.
	addFinalizer    struct{}
	removeFinalizer struct{}
	// createRun freezes the run. If there is a Secret of that name, only one with the same content is taken for it.
	createSnapshot struct{ snapshot *snapshot }
	// deleteRun removes the frozen run.
	deleteSnapshot struct{}
	// writeStatus writes the status, guarded by the resourceVersion. Where it has a snapshot without a UID, that is the one of the Secret
	// that was created just before.
	writeStatus struct{ status v1alpha1.ActionSetStatus }
	// startPhase does what the intent in the status says. What is observed of it at once is decided from anew.
	startPhase struct{ key phaseKey }
	// cancelPhase stops a phase. Where letGo is true nothing depends on its success.
	cancelPhase struct {
		key   phaseKey
		ignoreFailure bool
	}
	// cleanUp removes what a phase that has ended has left behind.
	cleanUp struct{ key phaseKey }
)

func (addFinalizer) String() string    { return "add the finalizer" }
func (removeFinalizer) String() string { return "remove the finalizer" }
func (createSnapshot) String() string       { return "freeze the run" }
func (deleteSnapshot) String() string       { return "delete the frozen run" }
func (s writeStatus) String() string   { return "write status " + describeStatus(&s.status) }
func (s startPhase) String() string    { return "start phase " + s.key.String() }
func (s cancelPhase) String() string   { return "cancel phase " + s.key.String() }
func (s cleanUp) String() string       { return "clean up phase " + s.key.String() }
func (s recordEvent) String() string {
	on := ""
	if s.blueprint != "" {
		on = " on Blueprint " + s.blueprint
	}
	return fmt.Sprintf("event%s %s %q %q", on, s.eventType, s.reason, s.message)
}

// forLog is a step without what users have written or printed: the message of an event may have the last lines of a command.
func forLog(s step) string {
	if event, ok := s.(recordEvent); ok {
		event.message = "..."
		return event.String()
	}
	return s.String()
}

// decide is the table of states.
func decide(o observed) plan {
	deleting := o.set.DeletionTimestamp != nil
	switch {
	case hasFinished(o.set.Status):
		return decideFinished(o)
	case foreignEnded(o.set.Status):
		return plan{steps: finalizerSteps(o, false)}
	case deleting && (o.namespaceTerminating || o.unwritable):
		return decideTerminating(o)
	case o.namespaceTerminating:
		return plan{} // nothing can be created there, and it will be deleted
	case hasStarted(o.set.Status):
		return decideRunning(o)
	case deleting:
		return plan{steps: finalizerSteps(o, false)} // nothing was done yet, or not by us
	case foreignStarted(o.set.Status):
		return decideForeign(o)
	default:
		return decideStart(o)
	}
}

func hasFinished(status *v1alpha1.ActionSetStatus) bool {
	return status != nil && status.CompletionTime != nil
}

func hasStarted(status *v1alpha1.ActionSetStatus) bool { return status != nil && status.StartTime != nil }

// goOn does what comes next in a run.
func decideRunning(o observed) plan {
	if o.statusTooLarge != "" {
		return decideTooLarge(o)
	}
	t := newPlanner(o, o.snapshot, *o.set.Status.DeepCopy())
	if o.snapshot == nil {
		t.failSnapshotLost()
	} else {
		if t.status.Snapshot == nil {
			t.status.Snapshot = o.snapshotID // it was started by a release that did not record it
		}
		t.recordCancel()
		for i := range t.status.Actions {
			t.advanceAction(i, false)
		}
	}
	return t.plan()
}

// tidy removes what a run that has ended has left.
func decideFinished(o observed) plan {
	t := newPlanner(o, o.snapshot, *o.set.Status)
	return plan{steps: append(append(repeatedEvents(o), t.cleanUpSteps()...), finishSteps(o)...)}
}

func finishSteps(o observed) (steps []step) {
	if o.snapshot != nil || o.foreignSnapshot {
		steps = append(steps, deleteSnapshot{})
	}
	return append(steps, finalizerSteps(o, false)...)
}

// letGo ends a run in a namespace that is terminated, or whose status cannot be written: nothing can be recorded there, so no deferPhase
// runs.
func decideTerminating(o observed) plan {
	var steps []step
	if hasStarted(o.set.Status) {
		for _, key := range runningPhases(o.set.Status) {
			steps = append(steps, cancelPhase{key: key, ignoreFailure: true})
		}
	}
	return plan{steps: append(steps, finalizerSteps(o, false)...)}
}

// finalizerSteps bring the finalizer where it should be.
func finalizerSteps(o observed, wanted bool) []step {
	has := slices.Contains(o.set.Finalizers, Finalizer)
	switch {
	case has && !wanted:
		return []step{removeFinalizer{}}
	case !has && wanted && o.set.DeletionTimestamp == nil:
		return []step{addFinalizer{}}
	default:
		return nil
	}
}
