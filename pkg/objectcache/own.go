// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file is how a user has a watch of its own, which it shares only with users that request the same.
//
// One that requests objects by name does not widen the shared watch of the resource, nor is it widened by it. It is a guest of the shared watch
// if that has the objects anyway, and moves to its own watch when that is narrowed.
//
// One that requests less than the shared watch has moves to its own when the API server forbids the shared one: a Role is enough for a user that
// needs one namespace, whatever others need.

// feedKey identifies a feed: the shared one of a resource, or one of a scope.
type feedKey struct {
	resource schema.GroupVersionResource
	// own is false for the shared feed, which has none of the following.
	own                       bool
	namespace, name, selector string
	// number distinguishes feeds of the same scope, which users have moved to.
	number int
}

func ownKey(resource schema.GroupVersionResource, within *scope) feedKey {
	return feedKey{resource: resource, own: true, namespace: within.namespace, name: within.name, selector: within.selectorText}
}

// feedFor returns the feed for a new user. c.mu is held.
func (c *Cache) feedFor(resource schema.GroupVersionResource, within *scope) *feed {
	own := ownKey(resource, within)
	if c.feeds[own] != nil {
		return c.feeds[own]
	}
	key := feedKey{resource: resource}
	shared := c.feeds[key]
	if within.name != "" && !shared.has(within) || shared.forbids(within) {
		key = own
	}
	return c.feed(key)
}

// feed returns the feed of a key, which is made if there is none. c.mu is held.
func (c *Cache) feed(key feedKey) *feed {
	f := c.feeds[key]
	if f == nil {
		f = newFeed(c, key)
		c.feeds[key] = f
	}
	return f
}

// has reports whether the feed has all of a scope, and will have it. f may be nil; f.mu is not held.
func (f *feed) has(within *scope) bool {
	if f == nil {
		return false
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.serves(within) && (f.next == nil || f.next.scope.covers(within))
}

// forbids reports whether the API server forbids what the feed would have to watch for a scope as well, unless that is the scope itself. f may be
// nil; f.mu is not held.
func (f *feed) forbids(within *scope) bool {
	if f == nil {
		return false
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.serves(within) {
		return false
	}
	wanted := f.wanted()
	wanted = wanted.union(within)
	for _, s := range []*source{f.current, f.next} {
		if s != nil && s.scope.equals(&wanted) && !within.equals(&wanted) && apierrors.IsForbidden(s.problem) {
			return true
		}
	}
	return false
}

// The functions below must be called with f.mu held.

// serves reports whether the feed has all of a scope.
func (f *feed) serves(within *scope) bool {
	return f.current != nil && f.current.synced && f.current.scope.covers(within) && !apierrors.IsForbidden(f.current.problem)
}

// isGuest reports whether the user requests objects by name from a shared watch.
func (f *feed) isGuest(user *Handle) bool { return !f.key.own && user.scope.name != "" }

// The functions below must be called with the cache's mu held, too.

// separate moves the guests that a scope does not cover to watches of their own.
func (f *feed) separate(remaining *scope) {
	f.moveIf(func(user *Handle) bool {
		return f.isGuest(user) && (remaining == nil || !remaining.covers(&user.scope))
	})
}

// separateFromNone moves all guests if there is no other user.
func (f *feed) separateFromNone() {
	for user := range f.users {
		if !f.isGuest(user) {
			return
		}
	}
	f.separate(nil)
}

// separateForbidden moves the users that need less than a source that is forbidden, unless they are served by the one that it was to replace.
func (f *feed) separateForbidden(s *source) {
	if s != f.current && s != f.next {
		return
	}
	f.moveIf(func(user *Handle) bool {
		return s.scope.covers(&user.scope) && !user.scope.equals(&s.scope) && !(s == f.next && user.active)
	})
	f.settle()
}

// settle makes the sources those that the remaining users need, after some have left. A feed without users ends.
func (f *feed) settle() {
	f.separateFromNone()
	f.steer()
	if len(f.users) == 0 {
		delete(f.cache.feeds, f.key)
		f.objects = newStore() // a handle that is still referenced does not keep the objects
		f.cache.tidy()
	}
}

// moveIf moves users to watches of their own. One that was served goes on to see what it sees.
func (f *feed) moveIf(moves func(user *Handle) bool) {
	split, moving := map[feedKey]*feed{}, map[*feed][]*Handle{}
	for user := range f.users {
		if !moves(user) {
			continue
		}
		key := ownKey(f.key.resource, &user.scope)
		own := f.cache.feed
		if user.active {
			own = func(key feedKey) *feed {
				if split[key] == nil {
					split[key] = f.split(key, &user.scope)
				}
				return split[key]
			}
		}
		to := own(key)
		moving[to] = append(moving[to], user)
	}
	for to, users := range moving {
		f.move(users, to)
	}
}

// split makes a feed of a scope that begins with the objects that are here: a list that is requested later is no older. A feed that there is for
// the scope already may be behind this one, so that what its users see could go back in time.
func (f *feed) split(key feedKey, within *scope) *feed {
	for f.cache.feeds[key] != nil {
		key.number++
	}
	own := f.cache.feed(key)
	own.version = f.version
	if within.name == "" {
		f.objects.each(within.namespace, func(o *RawObject) {
			if within.matches(o) {
				own.objects.put(o)
			}
		})
		return own
	}
	for namespace := range f.objects.namespaces {
		if o := within.within(f.objects.get(objectName{namespace, within.name})); o != nil {
			own.objects.put(o)
		}
	}
	return own
}

// move moves users to another feed. They come to it before its source starts: a change between two of them would be missed by the second.
func (f *feed) move(users []*Handle, own *feed) {
	own.mu.Lock()
	defer own.mu.Unlock()
	for _, user := range users {
		delete(f.users, user)
		own.admit(user)
	}
	own.activate()
	own.steer()
}
