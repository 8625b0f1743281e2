// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"hash/maphash"
	"maps"
	"time"

	"millwright.dev/pkg/controller"
)

// history is what one process has learned of a parent and its children. It never decides what is desired: without it the same writes are
// made, only more often, and in a rolling update later.
type history struct {
	// generation of the parent that the rest belongs to, and now the time of the last plan.
	generation int64
	now        time.Time
	// recorded is whether this process has written the ControllerRevisions of the parent, or found them as it would write them.
	recorded bool
	// ignored reports whether the API server has ignored something that was written, or would be, to the parent or a child.
	ignored bool
	// parent is a status whose write has changed nothing, and the version of the parent.
	parent version
	// refused is a status that was too large.
	refused  refusal
	children childHistories
	status   rewriteHistory
	metadata rewriteHistory
	answers  answerHistory
}

// of returns the history of a parent as it is now. An edit of its spec resets all backoffs.
func (h history) of(parent object, now time.Time) history {
	h.now = now
	if h.generation == parent.GetGeneration() {
		return h
	}
	h.generation, h.answers = parent.GetGeneration(), answerHistory{}
	h.status.rewrites, h.metadata.rewrites = controller.RewriteBackoff{}, controller.RewriteBackoff{}
	h.children = maps.Clone(h.children)
	for key := range h.children {
		child := h.children.of(key)
		child.rewrites = controller.RewriteBackoff{}
		h.children.set(key, child)
	}
	return h
}

// redefined returns the history after a change of definitions: what was ignored or refused, or seemed to be as desired, may not be so any more.
func (h history) redefined() history {
	h.ignored, h.parent, h.refused = false, version{}, refusal{}
	children := make(childHistories, len(h.children))
	for key, known := range h.children {
		again := *known
		again.synced.resourceVersion, again.futile, again.refused, again.differs, again.ready = "", change{}, refusal{}, version{}, ""
		children.set(key, again)
	}
	h.children = children
	return h
}

// version is a hash of what was desired of an object, and the version of that object. The zero value is none.
type version struct {
	desired         uint64
	resourceVersion string
}

// childHistory is what one process has learned of a child.
type childHistory struct {
	// synced is the version in which nothing had to be done.
	synced version
	// last is the last change, as long as none has led to a synced child.
	last attempt
	// reported is whether an event has reported that changes do not last.
	reported bool
	// futile is the change that is known to change nothing: a recreation by a dry run, an update in place by the result of the last write.
	futile change
	// refused is what was too large to be written.
	refused refusal
	// foreign is whether a foreign object has the name of the child.
	foreign bool
	// existed is whether the child was there, and was not deleted by us since.
	existed bool
	// rewrites are the repairs of what another client has changed or deleted.
	rewrites controller.RewriteBackoff
	// differs is a version that differs from what the latest revision desires, and ready is the resourceVersion in which the child was ready, in a rolling
	// update.
	differs version
	ready   string
}

// childHistories has what is known of children. What a pointer points to is never changed: copies of the map share it.
type childHistories map[childKey]*childHistory

// of returns what is known of a child, the zero value for nothing.
func (c childHistories) of(key childKey) childHistory {
	if known := c[key]; known != nil {
		return *known
	}
	return childHistory{}
}

func (c childHistories) set(key childKey, known childHistory) { c[key] = &known }

// markSynced forgets everything but the repairs and the rolling update.
func (h childHistory) markSynced(at version, now time.Time) childHistory {
	return childHistory{synced: at, existed: true, rewrites: h.rewrites, reported: h.reported && h.rewrites.Slowed(now), differs: h.differs, ready: h.ready}
}

// change of a child for its differences from what is desired, both as hashes. The zero value is none.
type change struct{ desired, differences uint64 }

// attempt is an attempt to bring a child to what is desired of it.
type attempt struct {
	desired uint64
	// times is how often the same was attempted in vain, wherever the child differed, and at when last.
	times int
	at    time.Time
}

const (
	// A difference that returns after each write, because the API server or another client restores it, is written with a backoff from
	// minFutileWait to maxFutileWait.
	minFutileWait = time.Second
	maxFutileWait = 5 * time.Minute
	// maxRecreations is how often a child is deleted for the same difference, where a dry run has promised another result.
	maxRecreations = 2

	// foreignRetryInterval is how often a creation is tried again that a foreign object prevents. As a rule its deletion is observed.
	foreignRetryInterval = 30 * time.Second
	// namespaceRetryInterval is how often a creation is tried again in a namespace that is being deleted, by a parent that is not in it: the namespace may
	// be made again, which the engine does not watch.
	namespaceRetryInterval = 5 * time.Second
)

// nextAttempt is the first attempt, or one more of the same. It does not matter where the child differs: a field may differ before the
// scheduler has set it, and another one after.
func (h childHistory) nextAttempt(desired uint64, now time.Time) attempt {
	times := 1
	if h.last.desired == desired {
		times += h.last.times
	}
	return attempt{desired, times, now}
}

// wait returns how long an attempt has to wait, or that the child is stuck: no more attempts are useful.
func (h childHistory) wait(verb verb, a attempt, now time.Time) (wait time.Duration, stuck bool) {
	if a.times == 1 {
		return 0, false
	}
	if verb == verbRecreate && a.times > maxRecreations {
		return 0, true
	}
	backoff := maxFutileWait
	if doublings := a.times - 2; doublings < 10 {
		backoff = min(minFutileWait<<doublings, maxFutileWait)
	}
	return h.last.at.Add(backoff).Sub(now), false
}

// recordDone records a step that has succeeded. The resourceVersion is that of the object which an update returned.
func (h *history) recordDone(s childStep, resourceVersion string) {
	if s.verb == verbDelete {
		return // it is not desired
	}
	known := h.children.of(s.child)
	if known.existed = s.verb != verbRecreate; s.repairs {
		known.rewrites = known.rewrites.Add(h.now)
	}
	switch s.verb {
	case verbUpdate:
		known.last = s.attempt
		if resourceVersion == s.resourceVersion {
			known.synced = version{s.attempt.desired, resourceVersion} // the API server ignores the change
			h.ignored = true
		}
	case verbRecreate:
		known.last = s.attempt
	case verbCreate:
		known.foreign = false
	}
	h.children.set(s.child, known)
}

// recordFutile records that a trial has shown the recreation of a child to change nothing. It reports whether that is news.
func (h *history) recordFutile(s childStep) (news bool) {
	h.ignored = true
	news = !h.children.of(s.child).reported
	h.children.set(s.child, childHistory{
		synced:   version{s.attempt.desired, s.trial.resourceVersion},
		reported: true,
		futile:   change{s.attempt.desired, s.trial.differences.hash()},
	})
	return news
}

// recordRemaining records the differences that a child has although it was just written: an update for the same would change nothing.
func (h *history) recordRemaining(s childStep, remaining differences) {
	h.ignored = true
	known := h.children.of(s.child)
	known.futile = change{s.attempt.desired, remaining.hash()}
	h.children.set(s.child, known)
}

// recordTooLarge records that a step was refused for the size of its object.
func (h history) recordTooLarge(s childStep, text string) {
	known := h.children.of(s.child)
	known.refused = refusal{version{s.attempt.desired, s.resourceVersion}, text}
	h.children.set(s.child, known)
}

// recordForeign records that a child could not be created because a foreign object has its name. It reports whether that is news. The parent
// is to be synced again after foreignRetryInterval.
func (h history) recordForeign(child childKey) (news bool) {
	known := h.children.of(child)
	news = !known.foreign
	known.foreign = true
	h.children.set(child, known)
	return news
}

// seed of all hashes of this process. They are never written down.
var seed = maphash.MakeSeed()
