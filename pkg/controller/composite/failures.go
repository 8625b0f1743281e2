// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"sync"

	"millwright.dev/pkg/hook"
)

// failures are the parents whose last sync failed for a reason that the author of the controller, or who installed the engine, can
// do something about.
type failures struct {
	mu      sync.Mutex
	failing map[key]failure
	shown   key // whose problem is told; it stays the same one as long as it fails
}

type failure struct {
	called phase
	*problem
}

// report tells how a sync went, and whether what is to be told of all has changed. wake are parents that were waiting for the hook to
// answer again, which it now does.
func (f *failures) report(parent key, called phase, p *problem) (changed bool, wake []key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p == nil {
		before, failed := f.failing[parent]
		delete(f.failing, parent)
		if called != phaseNone {
			wake = f.waiting(called)
		}
		return failed && before.problem != nil && f.shown == parent, wake
	}
	if f.failing == nil {
		f.failing = map[key]failure{}
	}
	before := f.failing[parent]
	f.failing[parent] = failure{called, p}
	switch {
	case len(f.failing) == 1:
		f.shown = parent
		changed = before.problem == nil || *before.problem != *p
	case f.shown == parent:
		changed = *before.problem != *p
	}
	return changed, nil
}

// waiting are the parents whose hook was not called, for it did not answer. They are returned once.
func (f *failures) waiting(called phase) (parents []key) {
	for parent, failure := range f.failing {
		if failure.called == called && failure.reason == string(hook.ReasonSuspended) {
			parents = append(parents, parent)
			f.failing[parent] = f.failing[parent].awake()
		}
	}
	return parents
}

// awake is a failure of a parent that was told to try again.
func (f failure) awake() failure { return failure{phaseNone, f.problem} }

// current is the problem to be told, nil if there is none.
func (f *failures) current() *problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, still := f.failing[f.shown]; !still {
		f.shown = key{}
		for parent := range f.failing {
			if f.shown == (key{}) || parent.String() < f.shown.String() {
				f.shown = parent
			}
		}
	}
	return f.failing[f.shown].problem
}
