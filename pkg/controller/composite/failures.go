// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"maps"
	"slices"
	"sync"

	"millwright.dev/pkg/hook"
)

// failures are the parents whose last sync failed for a reason that the author of the controller, or who installed the engine, can
// do something about.
type failures struct {
	mu      sync.Mutex
	failing map[key]*problem
	shown   key // whose problem is told; it stays the same one as long as it fails
	// suspended are those whose hook was not called, for it did not answer.
	suspended map[phase]map[key]struct{}
}

// report tells how a sync went, and whether what is to be told of all has changed. wake are parents that were waiting for the hook to
// answer again, which it now does.
func (f *failures) report(parent key, called phase, p *problem) (changed bool, wake []key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.failing[parent]
	for _, waiting := range f.suspended {
		delete(waiting, parent)
	}
	if p == nil {
		delete(f.failing, parent)
		wake = slices.Collect(maps.Keys(f.suspended[called]))
		delete(f.suspended, called)
		return before != nil && f.shown == parent, wake
	}
	if f.failing == nil {
		f.failing, f.suspended = map[key]*problem{}, map[phase]map[key]struct{}{}
	}
	f.failing[parent] = p
	if p.reason == string(hook.ReasonSuspended) {
		if f.suspended[called] == nil {
			f.suspended[called] = map[key]struct{}{}
		}
		f.suspended[called][parent] = struct{}{}
	}
	switch {
	case len(f.failing) == 1:
		f.shown = parent
		changed = before == nil || *before != *p
	case f.shown == parent:
		changed = *before != *p
	}
	return changed, nil
}

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
	return f.failing[f.shown]
}
