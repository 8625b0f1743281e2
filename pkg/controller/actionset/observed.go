// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"time"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// observed is all that is decided from. Nothing of it is changed.
type observed struct {
	set *v1alpha1.ActionSet
	// blueprints that the ActionSet names, by name: those that there are.
	blueprints map[string]*v1alpha1.Blueprint
	// snapshot of the run; nil if it is neither in memory nor on the API server. Where its Secret cannot be used, snapshotDamage is the reason.
	snapshot       *snapshot
	snapshotDamage string
	// snapshotID identifies the Secret with the snapshot, where that was read or created in this process; nil otherwise.
	snapshotID *v1alpha1.RunSnapshot
	// foreignSnapshot: the run has ended, and there is a Secret that is marked as its snapshot, from which it was not started.
	foreignSnapshot bool
	// takenOver: another process may have begun with the run, and have ended while it rendered templates.
	takenOver bool
	// snapshotRefusal is why the snapshot cannot be created at the moment.
	snapshotRefusal string
	// leftovers are the phases of which something was found that Cancel removes.
	leftovers []phaseKey
	// namespaceTerminating: the namespace is being deleted.
	namespaceTerminating bool
	// executor is the identity of this process, which starts phases.
	executor string
	// recordedEvent is the name of the last event that this process has recorded.
	recordedEvent string
	// statusTooLarge is why the API server has refused a status as too large. unwritable: it has refused a small one, too.
	statusTooLarge string
	unwritable     bool
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

// lookupResult is the result of a look-up: something was read, or it cannot be used, or that is not known at the moment.
type lookupResult struct {
	// failure is why it cannot be used.
	failure string
	// retry: it is to be tried again, because of why.
	retry bool
	why   string
}

// foundSubject is the subject of one action, with what the objects of its phases refer to, by the index of the phase. All that the
// action names is there.
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
	intent      map[string]any
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
