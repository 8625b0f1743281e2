// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

import (
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"millwright.dev/pkg/controller"
)

// memory is what one process has learned of a parent and of its children. It never decides what is desired: without it, the
// same is done, only more often.
type memory struct {
	// generation of the parent that the rest is of, and now the time of the last plan.
	generation int64
	now        time.Time
	// parent is the status with which a write has changed nothing, and the version of the parent.
	parent version
	// refused is a status that was too large.
	refused  refusal
	children map[childKey]childMemory
	status   statusMemory
	settling settling
}

// of the parent as it is now. What its user has changed is a reason to try again what was put off.
func (m memory) of(parent object, now time.Time) memory {
	m.now = now
	if m.generation == parent.GetGeneration() {
		return m
	}
	m.generation, m.settling, m.status.rewrites = parent.GetGeneration(), settling{}, controller.RewriteBackoff{}
	m.children = maps.Clone(m.children)
	for key, child := range m.children {
		child.rewrites = controller.RewriteBackoff{}
		m.children[key] = child
	}
	return m
}

// version is what was desired, as a hash, of an object as it was observed. The zero value is none.
type version struct {
	desired         uint64
	resourceVersion string
}

// childMemory is what one process has learned of a child.
type childMemory struct {
	// settled is for what nothing is to be done.
	settled version
	// last is the last change, as long as none has led to a settled child.
	last try
	// told is that somebody was told that such changes lead nowhere.
	told bool
	// futile is the recreation that a dry run has shown to change nothing.
	futile recreation
	// refused is what was too large to be written.
	refused refusal
	// taken is that an object of the child's name exists that is not the parent's.
	taken bool
	// existed tells that it was there, and that we have not deleted it since.
	existed bool
	// rewrites are the repairs of what another client has changed, or deleted.
	rewrites controller.RewriteBackoff
}

// settle forgets all but how often it was repaired.
func (m childMemory) settle(at version, now time.Time) childMemory {
	return childMemory{settled: at, existed: true, rewrites: m.rewrites, told: m.told && m.rewrites.Slowed(now)}
}

// recreation of a child for its differences from what is desired, both as hashes. The zero value is none.
type recreation struct{ desired, differences uint64 }

// try is an attempt to bring a child to what is desired of it.
type try struct {
	desired uint64
	// times that the same was desired in vain, wherever the child differed, and when last.
	times int
	at    time.Time
}

const (
	// A difference that comes back after each write, because the API server or somebody else puts it back, is written against
	// ever more rarely, from minFutileWait to maxFutileWait.
	minFutileWait = time.Second
	maxFutileWait = 5 * time.Minute
	// maxRecreations is how often a child is deleted for the same difference, where a dry run has promised another outcome.
	maxRecreations = 2

	// takenRetry is how often we look whether an object that is not the parent's has gone. As a rule its deletion is observed.
	takenRetry = 30 * time.Second
)

// next is one more try: the first, or another one of the same. Where the child differs does not matter: that may be in this field
// before the scheduler has come to it, and in that one after.
func (m childMemory) next(desired uint64, now time.Time) try {
	times := 1
	if m.last.desired == desired {
		times += m.last.times
	}
	return try{desired, times, now}
}

// wait tells how long to wait before a try, or that there is no use in it.
func (m childMemory) wait(verb verb, t try, now time.Time) (wait time.Duration, stuck bool) {
	if t.times == 1 {
		return 0, false
	}
	if verb == verbRecreate && t.times > maxRecreations {
		return 0, true
	}
	pause := maxFutileWait
	if doublings := t.times - 2; doublings < 10 {
		pause = min(minFutileWait<<doublings, maxFutileWait)
	}
	return m.last.at.Add(pause).Sub(now), false
}

// done learns from a step that has succeeded. The resourceVersion is that of the object which an update returned.
func (m memory) done(s childStep, resourceVersion string) {
	if known, desired := m.children[s.child]; desired {
		if known.existed = s.verb != verbRecreate; s.repairs {
			known.rewrites = known.rewrites.Add(m.now)
		}
		m.children[s.child] = known
	}
	switch s.verb {
	case verbUpdate:
		known := m.children[s.child]
		known.last = s.try
		if resourceVersion == s.resourceVersion {
			known.settled = version{s.try.desired, resourceVersion} // the API server takes nothing of it
		}
		m.children[s.child] = known
	case verbRecreate:
		known := m.children[s.child]
		known.last = s.try
		m.children[s.child] = known
	case verbCreate:
		known := m.children[s.child]
		known.taken = false
		m.children[s.child] = known
	}
}

// changesNothing learns from a trial that the recreation of a child does not, and reports whether that is news.
func (m memory) changesNothing(s childStep) (news bool) {
	known := m.children[s.child]
	news = !known.told
	m.children[s.child] = childMemory{
		settled: version{s.try.desired, s.trial.resourceVersion},
		told:    true,
		futile:  recreation{s.try.desired, s.trial.differences.hash()},
	}
	return news
}

// tooLarge learns that a step was refused for the size of its object.
func (m memory) tooLarge(s childStep, text string) {
	known := m.children[s.child]
	known.refused = refusal{version{s.try.desired, s.resourceVersion}, text}
	m.children[s.child] = known
}

// exists learns that a child could not be created because of an object of its name, and tells whether that is news. The parent
// is to be synced again after takenRetry.
func (m memory) exists(child childKey) (news bool) {
	known := m.children[child]
	news = !known.taken
	known.taken = true
	m.children[child] = known
	return news
}

// seed of all hashes of this process; they are never written down.
var seed = maphash.MakeSeed()

// hashOf is a hash of a tree, which tells null from what is empty.
func hashOf(value any) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			maphash.WriteComparable(&h, key)
			maphash.WriteComparable(&h, hashOf(v[key]))
		}
		h.WriteByte('{')
	case []any:
		for _, element := range v {
			maphash.WriteComparable(&h, hashOf(element))
		}
		h.WriteByte('[')
	default:
		maphash.WriteComparable(&h, v) // nil, bool, int64, float64, string
	}
	return h.Sum64()
}
