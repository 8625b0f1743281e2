// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// observed is what a plan is decided from. Nothing of it is changed.
type observed struct {
	set *v1alpha1.ActionSet
	// blueprints that the ActionSet names and that exist, by name, with the actions that it names.
	blueprints map[string]*v1alpha1.Blueprint
	// blueprintsTooLarge is why no run can start: the Blueprints, or their named actions, are too large together. Some are missing then. Otherwise it is "".
	blueprintsTooLarge string
	// blueprintsProblem is why a Blueprint cannot be read at the moment; "" if all were read.
	blueprintsProblem string
	// launchingShown is when this process has last written why the run cannot start.
	launchingShown time.Time
	// snapshot of the run; nil if it is neither in memory nor on the API server. If its Secret cannot be used, snapshotDamage is the reason.
	snapshot       *snapshot
	snapshotDamage string
	// snapshotID identifies the Secret with the snapshot if this process has read or created it; nil otherwise.
	snapshotID *v1alpha1.RunSnapshot
	// foreignSnapshot: the run has ended, or will not start, and a Secret is marked as its snapshot although the run was not started from it.
	foreignSnapshot bool
	// takenOver: another process may have begun the run, and may have ended while it rendered templates.
	takenOver bool
	// snapshotRefusal is why the snapshot cannot be created at the moment.
	snapshotRefusal string
	// leftovers are the phases that have left something for Cancel to remove.
	leftovers []phaseKey
	// leftUnknown: it is not known of all phases whether they have left something.
	leftUnknown bool
	// looksLeft: there was no time to look for what all phases have left.
	looksLeft bool
	// namespaceTerminating: the namespace is being deleted.
	namespaceTerminating bool
	// executor is the identity of this process, which starts phases.
	executor string
	// alone is the only action of which a phase is tried, because no other sync runs; nil for all.
	alone *int
	// prepareAgain is when a phase that could not be rendered is prepared again, if another process may have ended while it did so.
	prepareAgain map[phaseKey]time.Time
	// rendered are the phases whose arguments this process has rendered.
	rendered sets.Set[phaseKey]
	// continued are the running phases that this process has polled.
	continued sets.Set[phaseKey]
	// stopTried are the running phases that this process has tried to stop.
	stopTried sets.Set[phaseKey]
	// recordedEvent is the name of the last event that this process has recorded.
	recordedEvent string
	// statusTooLarge is why the API server has rejected a status as too large. unwritable: it has rejected a small one, too.
	statusTooLarge string
	unwritable     bool
	// now is the same in all decisions of one sync.
	now time.Time

	// round is what earlier syncs of this round have done, and what this one does not repeat. outOfTime are the kinds of asks of which no more are
	// answered in this sync.
	round     sets.Set[roundKey]
	outOfTime sets.Set[roundKind]

	// The following fields are the answers to asks.

	// subjects of the actions, nil if they were not asked for.
	subjects []foundSubject
	// prepared are phases that may start.
	prepared map[phaseKey]preparation
	// polled are phases that run.
	polled map[phaseKey]phase.Observation
	// waiting is what the phases wait for that were polled or prepared, and the run for a snapshot that cannot be read.
	waiting map[phaseKey]phaseWait
	// artifacts of actions that have succeeded.
	artifacts map[int]renderedArtifacts
}

// snapshotUnread reports whether the run goes on, and its snapshot cannot be read at the moment.
func (o *observed) snapshotUnread() bool {
	_, waits := o.waiting[ofSnapshot.phaseKey]
	return waits
}

// phaseKey is a phase of an ActionSet; phase may be phase.Deferred.
type phaseKey struct{ action, phase int }

func (k phaseKey) compare(other phaseKey) int {
	return cmp.Or(k.action-other.action, k.phase-other.phase)
}

func (k phaseKey) String() string { return phase.ID{Action: k.action, Phase: k.phase}.String() }

// lookupResult is the result of a look-up: success, a failure, or an error after which it is retried.
type lookupResult struct {
	// failure is why what was read cannot be used.
	failure string
	// retry: the look-up has to be retried, until what it waits for has happened.
	retry   bool
	waiting phase.Waiting
}

// foundSubject is the subject of one action, with the references of the objects of its phases, by the index of the phase. Everything that
// the action names exists.
type foundSubject struct {
	lookupResult
	subject subject
	objects map[int]map[string]v1alpha1.ObjectReference
}

// preparation is a phase whose arguments were rendered, with the intent of its function.
type preparation struct {
	lookupResult
	// initFailure is why the objects of the phase cannot be read.
	initFailure string
	// rendered: this process has survived the rendering.
	rendered bool
	intent   map[string]any
}

// renderedArtifacts are the output artifacts of one action.
type renderedArtifacts struct {
	lookupResult
	artifacts map[string]v1alpha1.Artifact
}

func hasFinished(status *v1alpha1.ActionSetStatus) bool {
	return status != nil && status.CompletionTime != nil
}

func hasStarted(status *v1alpha1.ActionSetStatus) bool {
	return status != nil && status.StartTime != nil
}
