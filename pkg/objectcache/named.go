// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import "k8s.io/apimachinery/pkg/runtime/schema"

// This file is how a user that requests objects by name has a watch of its own: it does not widen the watch of others, nor is it widened by them.
// It is a guest of the shared watch of the resource, if that has the objects anyway, and moves to its own watch when that is narrowed.

// feedKey identifies a feed: the shared one of a resource, which has no name, or the one for a name, in a namespace or in all.
type feedKey struct {
	resource        schema.GroupVersionResource
	namespace, name string
	// number distinguishes feeds for the same name, which guests have moved to.
	number int
}

// feedFor returns the feed for a new user. c.mu is held.
func (c *Cache) feedFor(resource schema.GroupVersionResource, within *scope) *feed {
	key := feedKey{resource: resource}
	if within.name != "" && !c.feeds[key].has(within) {
		key.namespace, key.name = within.namespace, within.name
	}
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
	return f.current != nil && f.current.synced && f.current.scope.covers(within) && (f.next == nil || f.next.scope.covers(within))
}

// The functions below must be called with f.mu held.

// isGuest reports whether the user requests objects by name from a shared watch.
func (f *feed) isGuest(user *Handle) bool { return f.key.name == "" && user.scope.name != "" }

// separate moves the guests that a scope does not cover to watches of their own. The cache's mu is held too.
func (f *feed) separate(remaining *scope) {
	moved := map[feedKey]*feed{}
	for user := range f.users {
		if !f.isGuest(user) || remaining != nil && remaining.covers(&user.scope) {
			continue
		}
		key := feedKey{resource: f.key.resource, namespace: user.scope.namespace, name: user.scope.name}
		if moved[key] == nil {
			moved[key] = f.split(key)
		}
		f.move(user, moved[key])
	}
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

// split makes a feed for a name, that begins with the objects that are here: a list that is requested later is no older. A feed that there is for
// the name already may be behind this one, so that what its users see could go back in time.
func (f *feed) split(key feedKey) *feed {
	for f.cache.feeds[key] != nil {
		key.number++
	}
	own := newFeed(f.cache, key)
	f.cache.feeds[key] = own
	own.version = f.version
	for namespace := range f.objects.namespaces {
		if o := f.objects.get(objectName{namespace, key.name}); o != nil && (key.namespace == "" || key.namespace == namespace) {
			own.objects.put(o)
		}
	}
	return own
}

// move moves a user, which goes on to see what it sees, to a feed that was split off.
func (f *feed) move(user *Handle, own *feed) {
	own.mu.Lock()
	defer own.mu.Unlock()
	delete(f.users, user)
	own.admit(user)
	own.steer()
}
