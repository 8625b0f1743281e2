// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"maps"
	"slices"
	"sync"

	"millwright.dev/pkg/hook"
)

// failures are the parents whose last sync failed for a reason that the author of the hook, or the administrator of the engine, can do
// something about.
type failures struct {
	mu      sync.Mutex
	failing map[Key]*Problem
	shown   Key // the parent whose problem is reported: the same one as long as it fails
	// suspended are those whose hook was not called, because its circuit breaker is open.
	suspended map[phase]map[Key]struct{}
}

// conclude records the end of a sync with its error, and the problem that is reported for it. After an error without one, such as an API server that does not
// answer, it is only known whether the hook has answered: then what was wrong with the hook is mended.
func (f *failures) conclude(parent Key, called phase, answered bool, err error, p *Problem) (changed bool, wake []Key) {
	switch {
	case err == nil || p != nil:
		return f.report(parent, called, p)
	case answered:
		return f.answered(parent, called)
	}
	return false, nil
}

// reasonsOfCalls are those of a hook without an answer.
var reasonsOfCalls = []hook.Reason{
	hook.ReasonCredentials, hook.ReasonBusy, hook.ReasonNoMemory, hook.ReasonSuspended, hook.ReasonUnreachable, hook.ReasonTooManyRequests, hook.ReasonStatus,
}

// answered forgets why a hook had not answered.
func (f *failures) answered(parent Key, called phase) (changed bool, wake []Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := f.failing[parent]; before != nil && slices.Contains(reasonsOfCalls, hook.Reason(before.Reason)) {
		delete(f.failing, parent)
		changed = f.shown == parent
	}
	return changed, f.takeSuspended(called)
}

// report records the problem of a sync, nil for a success. It reports whether current has changed. wake are the parents that waited for the hook
// to answer again, which it now does.
func (f *failures) report(parent Key, called phase, p *Problem) (changed bool, wake []Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.failing[parent]
	for _, waiting := range f.suspended {
		delete(waiting, parent)
	}
	if p == nil {
		delete(f.failing, parent)
		return before != nil && f.shown == parent, f.takeSuspended(called)
	}
	if f.failing == nil {
		f.failing, f.suspended = map[Key]*Problem{}, map[phase]map[Key]struct{}{}
	}
	if p.Reason == string(hook.ReasonSuspended) {
		if f.suspended[called] == nil {
			f.suspended[called] = map[Key]struct{}{}
		}
		f.suspended[called][parent] = struct{}{}
		if before != nil {
			p = before // the cause, which is reported already: it does not change as long as the hook is only probed
		}
	}
	f.failing[parent] = p
	if len(f.failing) == 1 {
		f.shown = parent
	}
	// There is no problem before if the parent has been synced and has failed again since current was called.
	return f.shown == parent && (before == nil || *before != *p), nil
}

// wake returns the parents that waited for a hook, which has answered.
func (f *failures) wake(called phase) []Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.takeSuspended(called)
}

func (f *failures) takeSuspended(called phase) []Key {
	wake := slices.Collect(maps.Keys(f.suspended[called]))
	delete(f.suspended, called)
	return wake
}

// current returns the problem to be reported, nil if there is none.
func (f *failures) current() *Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, still := f.failing[f.shown]; !still {
		f.shown = Key{}
		for parent := range f.failing {
			if f.shown == (Key{}) || parent.String() < f.shown.String() {
				f.shown = parent
			}
		}
	}
	return f.failing[f.shown]
}
