// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"maps"
	"slices"
	"sync"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/hook"
)

// Failures are what the failing parents of a Controller mean for it. The zero value is none.
type Failures struct {
	// Problem is why one of them fails, the same one as long as it does.
	Problem *Problem
	// General reports whether the problem concerns all parents: it is one of the hook or of rights, or each of them has one. Otherwise Parent is the name
	// of the one whose it is, and Failing of the Parents have one.
	General          bool
	Parent           string
	Failing, Parents int
}

// equal reports whether both report the same. Parents come and go: their number alone is no news.
func (f Failures) equal(other Failures) bool {
	if f.Problem == nil || other.Problem == nil {
		return f.Problem == other.Problem
	}
	same := *f.Problem == *other.Problem
	f.Problem, other.Problem = nil, nil
	f.Parents, other.Parents = 0, 0
	return same && f == other
}

// generalReasons are those of problems that concern all parents, even if only some have failed until now.
var generalReasons = append([]string{
	v1alpha1.ReasonForbidden, v1alpha1.ReasonGroupUnavailable, v1alpha1.ReasonParentsOverlap, string(hook.ReasonRelatedNotServed),
	string(hook.ReasonInvalidConfiguration)}, reasonsWithoutAnswer...)

// reasonsWithoutAnswer are those of a hook that has not answered at all.
var reasonsWithoutAnswer = []string{
	string(hook.ReasonCredentials), string(hook.ReasonBusy), string(hook.ReasonNoMemory), string(hook.ReasonSuspended), string(hook.ReasonUnreachable),
	string(hook.ReasonTooManyRequests),
}

// isGeneral reports whether a problem concerns all parents. A nil one does not.
func (p *Problem) isGeneral() bool { return p != nil && slices.Contains(generalReasons, p.Reason) }

// isOfCall reports whether a problem is mended as soon as the hook answers.
func (p *Problem) isOfCall() bool {
	return slices.Contains(reasonsWithoutAnswer, p.Reason) || p.Reason == string(hook.ReasonStatus)
}

// failures are the parents whose last sync failed for a reason that the author of the hook, or the administrator of the engine, can do
// something about.
type failures struct {
	mu      sync.Mutex
	failing map[Key]*Problem
	general int // how many of them have a general problem
	// unanswered are those for which the hook has failed since it has answered about any: perhaps it fails for all.
	unanswered map[Key]struct{}
	shown      Key // the parent whose problem is reported: the same one as long as it fails
	// reported is what current returned last.
	reported Failures
	// suspended are those whose hook was not called, because its circuit breaker is open.
	suspended map[phase]map[Key]struct{}
}

// conclude records the end of a sync with its error, and the problem that is reported for it. After an error without one, such as an API server that does not
// answer, it is only known whether the hook has answered: then what was wrong with the hook is mended. wake are the parents that waited for the hook to
// answer again, which it now does. doubtful reports whether the hook has to be called about another parent, to know whether it fails for all.
func (f *failures) conclude(parent Key, called phase, answered bool, err error, p *Problem) (wake []Key, doubtful bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if answered {
		clear(f.unanswered)
	}
	before := len(f.unanswered)
	switch {
	case err == nil || p != nil:
		wake = f.record(parent, called, p)
	case answered:
		wake = f.recordAnswer(parent, called)
	}
	return wake, before == 0 && len(f.unanswered) > 0
}

// recordAnswer records that the hook has answered.
func (f *failures) recordAnswer(parent Key, called phase) (wake []Key) {
	if before := f.failing[parent]; before != nil && before.isOfCall() {
		f.set(parent, nil)
	}
	return f.takeSuspended(called)
}

// record records the problem of a sync, nil for a success.
func (f *failures) record(parent Key, called phase, p *Problem) (wake []Key) {
	for _, waiting := range f.suspended {
		delete(waiting, parent)
	}
	if p == nil {
		f.set(parent, nil)
		return f.takeSuspended(called)
	}
	if p.Reason == string(hook.ReasonSuspended) {
		if f.suspended == nil {
			f.suspended = map[phase]map[Key]struct{}{}
		}
		if f.suspended[called] == nil {
			f.suspended[called] = map[Key]struct{}{}
		}
		f.suspended[called][parent] = struct{}{}
		if before := f.failing[parent]; before != nil {
			p = before // the cause, which is reported already: it does not change as long as the hook is only probed
		}
	}
	f.set(parent, p)
	return nil
}

// set sets the problem of a parent, nil for none.
func (f *failures) set(parent Key, p *Problem) {
	before := f.failing[parent]
	if before.isGeneral() {
		f.general--
	}
	_, unanswered := f.unanswered[parent]
	delete(f.unanswered, parent)
	if p != nil && p.Reason == string(hook.ReasonStatus) && (unanswered || before == nil || !before.isOfCall()) {
		if f.unanswered == nil {
			f.unanswered = map[Key]struct{}{}
		}
		f.unanswered[parent] = struct{}{}
	}
	if p.isGeneral() {
		f.general++
	}
	switch {
	case p == nil:
		delete(f.failing, parent)
	case f.failing == nil:
		f.failing = map[Key]*Problem{parent: p}
	default:
		f.failing[parent] = p
	}
}

// forget forgets a parent that is gone.
func (f *failures) forget(parent Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, waiting := range f.suspended {
		delete(waiting, parent)
	}
	f.set(parent, nil)
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

// current returns what is to be reported of a Controller with that many parents.
func (f *failures) current(parents int) Failures {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reported = f.of(parents)
	return f.reported
}

// haveChanged reports whether current returns something else than it did last.
func (f *failures) haveChanged(parents int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.reported.equal(f.of(parents))
}

func (f *failures) of(parents int) Failures {
	if len(f.failing) == 0 {
		return Failures{}
	}
	f.show()
	problem := f.failing[f.shown]
	if problem.isGeneral() || len(f.unanswered) > 0 || f.isSuspended() || len(f.failing) >= parents {
		return Failures{Problem: problem, General: true}
	}
	return Failures{Problem: problem, Parent: f.shown.String(), Failing: len(f.failing), Parents: parents}
}

// isSuspended reports whether a hook is not called.
func (f *failures) isSuspended() bool {
	for _, waiting := range f.suspended {
		if len(waiting) > 0 {
			return true
		}
	}
	return false
}

// show chooses the parent that is shown: the first one by name, of those whose problem concerns all if there are any, unless the one before is as good.
func (f *failures) show() {
	isGood := func(parent Key) bool {
		p, fails := f.failing[parent]
		_, unanswered := f.unanswered[parent]
		switch {
		case f.general > 0:
			return p.isGeneral()
		case len(f.unanswered) > 0:
			return unanswered
		}
		return fails
	}
	if isGood(f.shown) {
		return
	}
	f.shown = Key{}
	for parent := range f.failing {
		if isGood(parent) && (f.shown == (Key{}) || parent.String() < f.shown.String()) {
			f.shown = parent
		}
	}
}
