// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/blueprint"
)

const (
	// maxKept is how much memory the snapshots and arguments of all large runs may take that are kept from one sync to the next, in bytes, in a process with
	// the memory limit of the shipped Deployment.
	maxKept = 64 << 20
	// smallRun is how much memory a run may take that is always kept, in bytes.
	smallRun = 64 << 10
	// readPause is how long a run that is read again pauses after a sync, for each such run and as a multiple of the time that the sync has taken: all of
	// them together take about a tenth of a CPU. maxReadPause is the longest pause.
	readPause    = 10
	maxReadPause = 2 * time.Minute
)

// keptRuns accounts for the memory of large runs. What does not fit is not kept: it is read and rendered again in each sync.
type keptRuns struct {
	most int

	mu    sync.Mutex
	bytes map[cache.ObjectName]int
	total int
	// read are the runs that are read again in each sync.
	read sets.Set[cache.ObjectName]
}

// keep reports whether a run of this size may be kept. read: its ActionSet is read again in each sync.
func (k *keptRuns) keep(key cache.ObjectName, bytes int, read bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bytes == nil {
		k.bytes, k.read = map[cache.ObjectName]int{}, sets.New[cache.ObjectName]()
	}
	k.total -= k.bytes[key]
	delete(k.bytes, key)
	delete(k.read, key)
	kept := bytes <= smallRun || k.total+bytes <= k.most
	if kept && bytes > smallRun {
		k.bytes[key] = bytes
		k.total += bytes
	}
	if read || !kept {
		k.read.Insert(key)
	}
	return kept
}

// pause returns the least interval between two syncs of a run that is read again, if one takes this long.
func (k *keptRuns) pause(took time.Duration) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return min(took*time.Duration(readPause*k.read.Len()), maxReadPause)
}

// heldBy returns about how much memory an object takes, in bytes; much more than an object takes if it is so large that it could not be measured.
func heldBy(ctx context.Context, object map[string]any) int {
	bytes, err := blueprint.NewBudget(ctx).PayForObject(object)
	if err != nil {
		return math.MaxInt32
	}
	return bytes
}

// bound drops the snapshot and the arguments of a run if there is no room for them. It returns the time until the next sync, after one that took so long.
// There is no pause within a round. After it there is one as long as the round, so that a run takes about half of a worker, unless it is cancelled.
func (s *syncer) bound(after, took time.Duration) time.Duration {
	m := s.memory
	endsRound := m.round != nil && !s.share.continues
	if m.round != nil {
		took += m.round.took
		m.round.took = took
	}
	if endsRound {
		m.round = nil
	}
	bytes := m.snapshotBytes
	for _, args := range m.args {
		bytes += args.bytes
	}
	started := hasStarted(s.o.set.Status)
	read := s.large && started && !hasFinished(s.o.set.Status)
	kept := s.keptRuns.keep(s.key, bytes, read)
	if started && !kept {
		m.snapshot, m.snapshotID, m.snapshotBytes, m.args = nil, nil, 0, nil
	}
	switch {
	case after == 0 || !started || s.share.continues || isCancelled(s.o.set):
		return after
	case read || !kept:
		return max(after, s.keptRuns.pause(took))
	case endsRound:
		return max(after, min(took, maxReadPause))
	default:
		return after
	}
}
