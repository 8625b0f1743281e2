// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
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
)

// reload is what a source knows of changes of the definition. It is guarded by the feed's mu.
type reload struct {
	changed time.Time // when the definition changed last
	// stale is set from then until a list begins, and listing from there until a watch begins.
	stale, listing bool
	watch          watch.Interface // the last one that has begun; nil if there was none
}

// Reload lists the objects of a resource again when the API server has taken over the change of its definition. Users are notified of objects that
// differ. Call it when the spec of a CRD has changed.
func (c *Cache) Reload(of schema.GroupResource) {
	c.each(of, func(s *source) {
		s.changed, s.stale = time.Now(), true
		time.AfterFunc(reloadDelay, s.reloadLate)
	})
}

// reloadLate ends the watch, if nothing has been listed since the definition changed.
func (s *source) reloadLate() {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if s.watch != nil && s.stale {
		s.watch.Stop()
	}
}

// mayWatch returns an error for a watch that is to go on where another one has ended, if a list has to come first.
func (s *source) mayWatch() error {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if s.listing || !s.stale && (s.changed.IsZero() || time.Since(s.changed) > reloadPeriod) {
		return nil
	}
	s.retry() // without a delay
	return apierrors.NewResourceExpired("the definition of " + describe(s.feed.key.resource) + " has changed")
}
