// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// This file is how a source's lists and events get into a feed. A source that has been replaced is not listened to.

// begin records that a source asks for a whole list now: it will be no older than what has been deleted here so far.
func (f *feed) begin(s *source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.stale, s.listing = false, true
	if s == f.next {
		f.deleted = map[objectName]string{}
	}
}

// replace takes in a whole list.
func (f *feed) replace(s *source, items []*RawObject, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s != f.current && s != f.next {
		return
	}
	if s == f.next || f.catchUp != nil {
		items = f.merge(s, items, version)
	}
	if s == f.next {
		f.current.stop()
		f.current, f.next, f.deleted = s, nil, nil
	}
	s.synced = true
	if !s.stale {
		s.until = time.Time{}
	}
	if s.initial {
		s.initial, s.problem = false, nil
	}
	before := f.objects
	f.objects = before.emptied()
	f.version = version
	for _, o := range items {
		// The text decides: if the definition has changed, it is another one of the same version.
		if old := before.get(nameOf(o)); old != nil && old.text == o.text {
			o = old
		}
		f.objects.put(o)
	}
	before.each("", func(old *RawObject) {
		if f.objects.get(nameOf(old)) == nil {
			f.change(old, nil)
		}
	})
	f.objects.each("", func(o *RawObject) {
		if old := before.get(nameOf(o)); old != o {
			f.change(old, o)
		}
	})
	f.activate()
	f.steer()
	if len(items) >= tidyFrom {
		f.cache.tidy()
	}
}

// merge makes one state of the list of a source that may be behind what is here already, so that no object goes back in time: what
// is newer here stays as it is, and what was deleted here after the list was made does not come back.
func (f *feed) merge(s *source, items []*RawObject, version string) []*RawObject {
	until, deleted := f.version, map[objectName]string{}
	if f.catchUp != nil {
		deleted = f.catchUp.deleted
		if newer(f.catchUp.until, until) {
			until = f.catchUp.until
		}
	}
	for name, at := range f.deleted {
		deleted[name] = at
	}
	f.catchUp = nil
	if newer(until, version) {
		f.catchUp = &catchUp{until: until, deleted: deleted}
	}
	merged := items[:0]
	listed := make(map[objectName]struct{}, len(items))
	for _, o := range items {
		name := nameOf(o)
		listed[name] = struct{}{}
		if here := f.objects.get(name); here != nil && here.newerThan(o.GetResourceVersion()) {
			o = s.scope.within(here)
		} else if here == nil && newer(deleted[name], o.GetResourceVersion()) {
			o = nil
		}
		if o != nil {
			merged = append(merged, o)
		}
	}
	f.objects.each("", func(here *RawObject) {
		if _, found := listed[nameOf(here)]; !found && here.newerThan(version) && s.scope.matches(here) {
			merged = append(merged, here)
		}
	})
	return merged
}

// put takes in an object that was added or changed.
func (f *feed) put(s *source, o *RawObject) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s != f.current {
		return
	}
	name := nameOf(o)
	old := f.objects.get(name)
	if old.sameVersion(o) {
		return // a duplicate
	}
	if f.catchUp != nil && (old != nil && old.newerThan(o.GetResourceVersion()) || newer(f.catchUp.deleted[name], o.GetResourceVersion())) {
		return
	}
	f.objects.put(o)
	f.cache.receive(len(o.JSON()))
	f.reached(o.GetResourceVersion())
	f.change(old, o)
}

// remove takes in that an object was deleted, or has left the source's scope. last is its last state, at the resourceVersion of that.
func (f *feed) remove(s *source, last *RawObject) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s != f.current {
		return
	}
	name := nameOf(last)
	if f.deleted != nil {
		f.deleted[objectName{clone(name.namespace), clone(name.name)}] = clone(last.GetResourceVersion())
	}
	old := f.objects.get(name)
	if old == nil || f.catchUp != nil && old.newerThan(last.GetResourceVersion()) {
		return
	}
	f.objects.remove(name)
	f.reached(last.GetResourceVersion())
	f.change(old, nil)
}

// reach records that everything up to that resourceVersion is here.
func (f *feed) reach(s *source, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s == f.current {
		f.reached(version)
	}
}

// reached does the same with f.mu held. It is called before the users are notified of the change: a user that is notified of its own write, and
// checks the cache, is not notified again.
func (f *feed) reached(version string) {
	if f.version != version {
		f.version = clone(version)
	}
	if f.catchUp != nil && !newer(f.catchUp.until, version) {
		f.catchUp = nil
	}
}

// stall records why no list or watch of a source succeeds, or nil.
func (f *feed) stall(s *source, reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.stalled = reason
	f.notifyProblems()
}

// accept records that a source watches. Before its initial events have come, if it has asked for them, the objects are those from before its problem.
func (f *feed) accept(s *source, initial bool, w watch.Interface) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.watch, s.listing = w, false
	if s.stale { // the definition changed after the list had begun
		time.AfterFunc(reloadDelay, s.reloadLate)
	}
	if s.initial = initial; !initial {
		s.problem = nil
		f.notifyProblems()
	}
}

// report records what is wrong with a source. What is refused stays so until the source lists and watches again: another error in between does not
// mean that changes are seen.
func (f *feed) report(s *source, problem error) {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	s.initial = false
	if IsRefused(problem) || !IsRefused(s.problem) {
		s.problem = problem
	}
	if apierrors.IsForbidden(problem) {
		f.separateForbidden(s)
	}
	f.notifyProblems()
}
