// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"sync"
	"time"
)

// narrowDelay is how long the users of a resource must have needed less before the watch is narrowed: narrowing needs a new list, and a
// user that releases its handle often acquires another one immediately.
const narrowDelay = 30 * time.Second

// feed holds the objects of one resource for all its users, or those of one scope (own.go), and keeps one watch on it; a second one only while the watch
// is widened or narrowed.
type feed struct {
	cache *Cache
	key   feedKey

	mu      sync.RWMutex
	objects *store
	version string // up to which the objects are known
	users   map[*Handle]struct{}
	// current is the source of the objects. next replaces it when it has its first state; nil if there is none.
	current, next *source
	// deleted are the objects that current has deleted since next requested its list, with the resourceVersion of the deletion.
	deleted map[objectName]string
	// catchUp is set while current is older than objects.
	catchUp *catchUp
	// narrowing is set while users need less than the watch has.
	narrowing *time.Timer
}

// catchUp is what a new source must not undo until it is as new as the source before it.
type catchUp struct {
	until   string
	deleted map[objectName]string
}

func newFeed(cache *Cache, key feedKey) *feed {
	return &feed{cache: cache, key: key, objects: newStore(), users: map[*Handle]struct{}{}}
}

// eachSource calls a function for the sources, with f.mu held.
func (f *feed) eachSource(do func(*source)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range []*source{f.current, f.next} {
		if s != nil {
			do(s)
		}
	}
}

// The functions below must be called with f.mu held.

// admit adds a user.
func (f *feed) admit(user *Handle) {
	f.users[user] = struct{}{}
	user.feed.Store(f)
}

// wanted returns the narrowest scope with all that the users need. There is at least one user. One that uses a shared watch for an object by name
// does not count: see own.go.
func (f *feed) wanted() scope {
	var all scope
	first := true
	for user := range f.users {
		if f.isGuest(user) {
			continue
		}
		if first {
			all, first = user.scope, false
		} else {
			all = all.union(&user.scope)
		}
	}
	return all
}

// steer starts and stops sources so that one has, or will have, what the users need.
func (f *feed) steer() {
	if len(f.users) == 0 {
		f.stop()
		return
	}
	wanted := f.wanted()
	switch {
	case f.current == nil || !f.current.synced:
		if f.current == nil || !f.current.scope.equals(&wanted) {
			f.stop()
			f.current = f.start(wanted)
		}
	case f.current.scope.covers(&wanted):
		if f.next != nil && !f.next.scope.equals(&wanted) {
			f.dropNext()
		}
		if f.next == nil {
			f.narrowLater(!f.current.scope.equals(&wanted))
		}
	case f.next == nil || !f.next.scope.equals(&wanted):
		f.replaceBy(wanted)
	}
	f.notifyProblems()
}

// replaceBy starts the next source. The cache's mu is held too.
func (f *feed) replaceBy(wanted scope) {
	f.separate(&wanted)
	f.dropNext()
	f.narrowLater(false)
	f.next = f.start(wanted)
}

// narrowLater starts the timer after which the watch is narrowed, unless it already runs, or stops it.
func (f *feed) narrowLater(later bool) {
	switch {
	case !later && f.narrowing != nil:
		f.narrowing.Stop()
		f.narrowing = nil
	case later && f.narrowing == nil:
		var timer *time.Timer
		timer = time.AfterFunc(narrowDelay, func() {
			f.cache.mu.Lock()
			defer f.cache.mu.Unlock()
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.narrowing != timer {
				return // it was stopped too late
			}
			f.narrowing = nil
			f.replaceBy(f.wanted())
		})
		f.narrowing = timer
	}
}

func (f *feed) dropNext() {
	if f.next != nil {
		f.next.stop()
	}
	f.next, f.deleted = nil, nil
}

// stop ends all sources.
func (f *feed) stop() {
	f.dropNext()
	f.narrowLater(false)
	if f.current != nil {
		f.current.stop()
	}
	f.current = nil
}

// activate passes their first state to the users whose objects are now complete.
func (f *feed) activate() {
	if f.current == nil || !f.current.synced {
		return
	}
	for user := range f.users {
		if !user.active && f.current.scope.covers(&user.scope) {
			user.active = true
			user.queue.begin(f.list(user, "", nil))
		}
	}
}

// change notifies the users of a change of an object: old is nil for a new one, new for one that is gone.
func (f *feed) change(old, new *RawObject) {
	for user := range f.users {
		if !user.active {
			continue
		}
		if old, new := user.scope.within(old), user.scope.within(new); old != nil || new != nil {
			user.queue.push(old, new)
		}
	}
}

// notifyProblems passes the problem of its source to each user.
func (f *feed) notifyProblems() {
	for user := range f.users {
		source := f.current
		if !user.active && f.next != nil {
			source = f.next
		}
		if source != nil {
			user.queue.setProblem(source.trouble())
		}
	}
}
