// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// smallData is how much memory the data of templates may take that need no turn before they turn out to be expensive, in bytes.
const smallData = 256 << 10

// memory is what this process remembers of an ActionSet. It saves requests; everything works without it, as after a restart.
// Only the syncs of its ActionSet use it, one at a time.
type memory struct {
	// snapshot of the run while its Secret exists. snapshotID identifies that Secret.
	snapshot   *snapshot
	snapshotID *v1alpha1.RunSnapshot
	// snapshotBytes is about how much memory the snapshot takes, in bytes.
	snapshotBytes int
	// readsMany: the run reads more than fewReads objects, so that its syncs need turns.
	readsMany bool
	// snapshotCreated: this process has created the Secret with the snapshot.
	snapshotCreated bool
	// cleanedUp: nothing is left of a run that has ended.
	cleanedUp bool
	// cleanUp is what was cleaned up, and what could not be.
	cleanUp cleanUpMemory
	// heldRecorded: an event has recorded why the ActionSet waits for its status to be served.
	heldRecorded bool
	// recordedEvent is the name of the last recorded event that must not be lost, and lastName the newest name of an event.
	recordedEvent string
	lastName      int64
	// unwritable: even a small status was rejected as too large.
	unwritable bool
	// args are the rendered arguments of running phases. They may contain secrets, and are kept nowhere else.
	args map[phaseKey]keptArgs
	// rendered are the phases whose arguments this process has rendered.
	rendered sets.Set[phaseKey]
	// prepareAgain is when phases are prepared again that could not be rendered.
	prepareAgain map[phaseKey]time.Time
	// continued are the running phases that this process has polled.
	continued sets.Set[phaseKey]
	// stopTried are the running phases that this process has tried to stop.
	stopTried sets.Set[phaseKey]
	// launchingShown is when this process has last written why the run cannot start.
	launchingShown time.Time
	// round is the round that has begun; nil if none has.
	round *round
	// waiting is what phases wait for.
	waiting map[phaseKey]phaseWait
	// unstarted is what phases wait for whose start is retried.
	unstarted map[phaseKey]phase.Waiting
}

// startedFrom reports whether the snapshot in memory is the one in the status. Another process may have started the run from another snapshot.
func (m *memory) startedFrom(status *v1alpha1.ActionSetStatus) bool {
	return m.snapshot != nil && (status == nil || status.Snapshot == nil || m.snapshotID != nil && *status.Snapshot == *m.snapshotID)
}

// keptArgs are arguments, with about how much memory they take, in bytes.
type keptArgs struct {
	args  map[string]any
	bytes int
}

// keep remembers the arguments of a phase that runs, or is about to. It returns about how much memory they take, in bytes.
func (m *memory) keep(ctx context.Context, key phaseKey, args map[string]any) (bytes int) {
	if m.args == nil {
		m.args = map[phaseKey]keptArgs{}
	}
	bytes = heldBy(ctx, args)
	m.args[key] = keptArgs{args, bytes}
	return bytes
}

// keepRendered remembers that this process has rendered the arguments of a phase, and returns all such phases.
func (m *memory) keepRendered(key phaseKey) sets.Set[phaseKey] { return insert(&m.rendered, key) }

// prepareLater remembers that a phase could not be rendered now, and returns when all such phases are prepared again.
func (m *memory) prepareLater(key phaseKey, at time.Time) map[phaseKey]time.Time {
	if m.prepareAgain == nil {
		m.prepareAgain = map[phaseKey]time.Time{}
	}
	m.prepareAgain[key] = at
	return m.prepareAgain
}

// keepContinued remembers that this process has polled a phase, and returns all such phases.
func (m *memory) keepContinued(key phaseKey) sets.Set[phaseKey] { return insert(&m.continued, key) }

// triedToStop remembers that this process has tried to stop a phase, and returns all such phases.
func (m *memory) triedToStop(key phaseKey) sets.Set[phaseKey] { return insert(&m.stopTried, key) }

func insert(into *sets.Set[phaseKey], key phaseKey) sets.Set[phaseKey] {
	if *into == nil {
		*into = sets.New[phaseKey]()
	}
	return into.Insert(key)
}

// blueprintSet is a set of Blueprints.
type blueprintSet struct {
	mu         sync.Mutex
	blueprints sets.Set[types.UID]
}

// add reports whether the Blueprint is observed for the first time.
func (m *blueprintSet) add(blueprint types.UID) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blueprints == nil {
		m.blueprints = sets.New[types.UID]()
	}
	first = !m.blueprints.Has(blueprint)
	m.blueprints.Insert(blueprint)
	return first
}

// remove forgets a Blueprint that is gone.
func (m *blueprintSet) remove(blueprint types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blueprints.Delete(blueprint)
}
