// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// This file is how objects are listed again whose definition has changed: they have other fields now, and the resourceVersions that they had. The
// API server goes on to send the fields of the old definition in the watches that there are, until it ends them. It ends them a second later, or up
// to two minutes if requests are under way, and each of several API servers does so by itself.

const (
	// reloadDelay is how long a watch may go on after a change of the definition, if the API server does not end it.
	reloadDelay = 5 * time.Second
	// reloadPeriod is how long after a change of the definition objects are listed again whenever the API server has ended a watch.
	reloadPeriod = 3 * time.Minute
	// reloadPatience is how long after a change of the definition users had better wait for a list. What fails for longer is a problem of another kind.
	reloadPatience = 2 * reloadDelay
)

// definitions knows which resources had a change of their definition in the last reloadPeriod. A source that starts meanwhile may get its first list
// and watch in the old definition, too.
type definitions struct {
	mu      sync.Mutex
	changed map[schema.GroupResource]time.Time
}

func (d *definitions) change(of schema.GroupResource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(d.changed, func(_ schema.GroupResource, at time.Time) bool { return now.Sub(at) > reloadPeriod })
	if d.changed == nil {
		d.changed = map[schema.GroupResource]time.Time{}
	}
	d.changed[of] = now
}

func (d *definitions) hasChanged(of schema.GroupResource) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, found := d.changed[of]
	return found && time.Since(at) <= reloadPeriod
}

// reload is what a source knows of the last change of the definition. It is guarded by the feed's mu.
type reload struct {
	// stale is set from the change until a list begins, and listing from there until a watch begins.
	stale, listing bool
	// until is set from the change until its list has come, to the time when users wait no more for it.
	until time.Time
	watch watch.Interface // the last one that has begun; nil if there was none
}

// Reload lists the objects of a resource again when the API server has taken over the change of its definition. Users are notified of objects that
// differ. Call it when the spec of a CRD has changed.
func (c *Cache) Reload(of schema.GroupResource) {
	c.definitions.change(of)
	c.each(of, func(s *source) {
		s.stale, s.until = true, time.Now().Add(reloadPatience)
		time.AfterFunc(reloadDelay, s.reloadLate)
	})
}

// Reloading reports whether the objects may still be as an old definition has them, so that what is written as a whole would lose fields that a user has
// set meanwhile. It lasts for seconds, until they are listed again, or for reloadPatience.
func (h *Handle) Reloading() bool {
	f := h.view()
	defer f.mu.RUnlock()
	return f.current != nil && time.Now().Before(f.current.until)
}

// reloadLate ends the watch, if nothing has been listed since the definition changed.
func (s *source) reloadLate() {
	s.feed.mu.RLock()
	w, stale := s.watch, s.stale
	s.feed.mu.RUnlock()
	if w != nil && stale {
		w.Stop() // without the lock, because it closes a connection
	}
}

// mayWatch returns an error for a watch that is to go on where another one has ended, if a list has to come first.
func (s *source) mayWatch() error {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	resource := s.feed.key.resource
	if s.listing || !s.stale && !s.feed.cache.definitions.hasChanged(resource.GroupResource()) {
		return nil
	}
	s.retry() // without a delay
	return apierrors.NewResourceExpired("the definition of " + describe(resource) + " has changed")
}
