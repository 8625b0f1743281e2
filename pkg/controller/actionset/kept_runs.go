// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/blueprint"
)

const (
	// maxKept is how much memory the snapshots and arguments of all large runs may take that are kept from one sync to the next, in bytes.
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
	// dropped are the runs that are not kept.
	dropped sets.Set[cache.ObjectName]
}

// keep reports whether a run of this size may be kept.
func (k *keptRuns) keep(key cache.ObjectName, bytes int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.total -= k.bytes[key]
	delete(k.bytes, key)
	delete(k.dropped, key)
	if bytes <= smallRun {
		return true
	}
	if k.bytes == nil {
		k.bytes, k.dropped = map[cache.ObjectName]int{}, sets.New[cache.ObjectName]()
	}
	if k.total+bytes > k.most {
		k.dropped.Insert(key)
		return false
	}
	k.bytes[key] = bytes
	k.total += bytes
	return true
}

// pause returns the least interval between two syncs of a run that is not kept, if one takes this long.
func (k *keptRuns) pause(took time.Duration) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return min(took*time.Duration(readPause*k.dropped.Len()), maxReadPause)
}

// heldBy returns about how much memory an object takes, in bytes.
func heldBy(ctx context.Context, object map[string]any) int {
	bytes, err := blueprint.NewBudget(ctx).PayForObject(object)
	if err != nil {
		return maxKept // it is so large that it could not be measured
	}
	return bytes
}

// bound drops the snapshot and the arguments of a run if there is no room for them, and returns the time until the next sync, after one that took so long.
func (s *syncer) bound(after, took time.Duration) time.Duration {
	m := s.memory
	bytes := m.snapshotBytes
	for _, args := range m.args {
		bytes += args.bytes
	}
	if s.keptRuns.keep(s.key, bytes) || !hasStarted(s.o.set.Status) {
		return after
	}
	m.snapshot, m.snapshotID, m.snapshotBytes, m.args = nil, nil, 0, nil
	if after == 0 || s.o.set.DeletionTimestamp != nil || s.o.set.Spec != nil && s.o.set.Spec.Cancel {
		return after
	}
	return max(after, s.keptRuns.pause(took))
}
