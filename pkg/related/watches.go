// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/objectcache"
)

// This file is how the watches of a Watcher come, change and go. Unless it is stated otherwise, w.mu is held.

// require adds the needs of rules, and removes those of earlier ones. Either may be nil.
func (w *Watcher[K]) require(rules, before *Rules) {
	changed := map[schema.GroupVersionResource]struct{}{}
	if rules != nil {
		for i := range rules.scopes {
			if s := &rules.scopes[i]; w.demand.add(s) {
				changed[s.resource] = struct{}{}
			}
		}
	}
	if before != nil {
		for i := range before.scopes {
			if s := &before.scopes[i]; w.demand.remove(s) {
				changed[s.resource] = struct{}{}
			}
		}
	}
	for resource := range changed {
		w.adjust(resource)
	}
}

// adjust acquires the watches of a resource that are missing. Those that are not needed any more are released later, when what takes their place
// is synced.
func (w *Watcher[K]) adjust(resource schema.GroupVersionResource) {
	watches := w.watches[resource]
	if watches == nil {
		watches = map[extent]*watch{}
		w.watches[resource] = watches
	}
	wanted := w.demand.wanted(resource, func(at extent) bool { return watches[at] != nil && watches[at].isForbidden() })
	needed := make(map[extent]struct{}, len(wanted))
	for _, s := range wanted {
		needed[s.extent] = struct{}{}
		if held := watches[s.extent]; held != nil {
			held.unneeded = time.Time{}
		} else {
			watches[s.extent] = w.open(s)
		}
	}
	for at, held := range watches {
		if _, found := needed[at]; !found && held.unneeded.IsZero() {
			held.unneeded = time.Now()
			w.sweepLater(releaseDelay)
		}
	}
}

func (w *Watcher[K]) open(s scope) *watch {
	held := &watch{scope: s}
	request := s.request()
	request.OnChange = func(before, after *objectcache.RawObject) { w.changed(held, before, after) }
	request.OnSynced = func() { w.progressed(held, func() { held.synced = true }) }
	request.OnProblem = func(problem error) {
		w.progressed(held, func() { held.problem = problem })
		w.problemChanged()
	}
	held.handle, held.problem = w.acquire(request)
	return held
}

// sweepLater makes sure that watches that no rule needs are released.
func (w *Watcher[K]) sweepLater(delay time.Duration) {
	if w.sweep != nil || w.closed {
		return
	}
	w.sweep = time.AfterFunc(delay, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sweep = nil
		if next := w.releaseUnneeded(time.Now()); next > 0 {
			w.sweepLater(next)
		}
	})
}

// releaseUnneeded releases the watches that no rule has needed for a while. It returns when to look again, 0 if there are no others.
func (w *Watcher[K]) releaseUnneeded(now time.Time) (next time.Duration) {
	for resource, watches := range w.watches {
		serving := true // what takes their place has all that they have
		for _, held := range watches {
			serving = serving && (held.synced || !held.unneeded.IsZero() || held.isForbidden())
		}
		for at, held := range watches {
			if held.unneeded.IsZero() {
				continue
			}
			left := releaseDelay - now.Sub(held.unneeded)
			if left <= 0 && serving {
				held.release()
				delete(watches, at)
				continue
			}
			if left <= 0 {
				left = releaseDelay
			}
			if next == 0 || left < next {
				next = left
			}
		}
		if len(watches) == 0 {
			delete(w.watches, resource)
		}
	}
	return next
}

// find returns a current watch that has all of the scope, or else one that will have, or else one that shows why there is none.
func (w *Watcher[K]) find(s *scope) *watch {
	watches := w.watches[s.resource]
	found := watches[s.extent]
	if found != nil && found.isCurrent() {
		return found
	}
	for at := range s.wider() {
		held := watches[at]
		switch {
		case held == nil:
		case held.isCurrent():
			return held
		case found == nil || held.isExpected() && !found.isExpected():
			found = held
		}
	}
	return found
}

// isExpected reports whether the watch will be current, as far as is known.
func (held *watch) isExpected() bool { return held.unneeded.IsZero() && !held.isForbidden() }

// isForbidden reports whether the API server forbids the watch.
func (held *watch) isForbidden() bool { return apierrors.IsForbidden(held.problem) }

// isCurrent reports whether all objects of the watch are there, and their changes come. They stop coming when the right to watch is taken away, or
// the resource is no longer served. A short interruption is none.
func (held *watch) isCurrent() bool {
	return held.synced && !objectcache.IsRefused(held.problem)
}

// status must be called with w.mu held for reading or writing.
func (w *Watcher[K]) status(rules *Rules) Status {
	status := Status{Synced: true}
	for i := range rules.scopes {
		held := w.find(&rules.scopes[i])
		if held != nil && held.isCurrent() {
			continue
		}
		status.Synced = false
		if held != nil && held.problem != nil {
			return Status{Problem: held.explain()}
		}
	}
	return status
}

// wait records that the key is to be queued when its status changes.
func (w *Watcher[K]) wait(key K, status Status) {
	problem := ""
	if status.Problem != nil {
		problem = status.Problem.Error()
	}
	rules := w.rules[key]
	for i := range rules.scopes {
		s := &rules.scopes[i]
		if held := w.find(s); held != nil && held.isCurrent() {
			continue
		}
		if w.waiting[s.resource] == nil {
			w.waiting[s.resource] = map[K]string{}
		}
		w.waiting[s.resource][key] = problem
	}
}

func (w *Watcher[K]) stopWaiting(key K) {
	rules := w.rules[key]
	if rules == nil || len(w.waiting) == 0 {
		return
	}
	for i := range rules.scopes {
		resource := rules.scopes[i].resource
		if delete(w.waiting[resource], key); len(w.waiting[resource]) == 0 {
			delete(w.waiting, resource)
		}
	}
}

// progressed records that a watch is synced or has another problem, and queues the keys that waited for that, or that have relied on the watch until now.
// w.mu is not held.
func (w *Watcher[K]) progressed(held *watch, record func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	wasCurrent, wasForbidden := held.isCurrent(), held.isForbidden()
	record()
	if held.isForbidden() != wasForbidden && w.watches[held.resource][held.extent] == held {
		w.adjust(held.resource)
	}
	var keys []K
	if wasCurrent && !held.isCurrent() {
		keys = w.unserved(held)
	}
	for key, problem := range w.waiting[held.resource] {
		status := w.status(w.rules[key])
		now := ""
		if status.Problem != nil {
			now = status.Problem.Error()
		}
		if status.Synced || now != problem {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		w.stopWaiting(key)
	}
	if len(keys) > 0 {
		w.enqueue(keys...)
	}
}

// unserved returns the keys without a current watch of what a watch has.
func (w *Watcher[K]) unserved(held *watch) (keys []K) {
	for key, rules := range w.rules {
		if slices.ContainsFunc(rules.scopes, func(s scope) bool { return held.covers(&s.extent) }) && !w.status(rules).Synced {
			keys = append(keys, key)
		}
	}
	return keys
}

// changed queues the keys whose rules a change of an object concerns. w.mu is not held. Before the watch is synced, there are none: they use
// another watch, which reports the change too, or wait for this one.
func (w *Watcher[K]) changed(held *watch, before, after *objectcache.RawObject) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed || !held.synced {
		return
	}
	change := Change{Resource: held.resource, Before: before, After: after}
	at := after
	if at == nil {
		at = before
	}
	if namespace := at.GetNamespace(); namespace != "" && w.index.needsNamespaces() {
		change.Namespace = reader[K]{w}.Get(namespacesResource, "", namespace)
	}
	keys := w.index.AppendChanged(nil, change)
	if held.resource == namespacesResource {
		keys = w.index.AppendRelabelled(keys, before, after)
	}
	if len(keys) > 0 {
		w.enqueue(keys...)
	}
}

// reader reads from the watches of a Watcher. Its w.mu is held for reading.
type reader[K comparable] struct{ w *Watcher[K] }

// Get implements Reader.
func (r reader[K]) Get(resource schema.GroupVersionResource, namespace, name string) *objectcache.RawObject {
	held := r.w.find(&scope{extent: extent{resource: resource, namespace: namespace, name: name}})
	if held == nil || !held.synced {
		return nil
	}
	return held.handle.Get(namespace, name)
}

// List implements Reader.
func (r reader[K]) List(resource schema.GroupVersionResource, namespace, name string, selector labels.Selector) []*objectcache.RawObject {
	at := scope{extent: extent{resource: resource, namespace: namespace, name: name, selector: textOf(selector)}, labels: selector}
	held := r.w.find(&at)
	switch {
	case held == nil || !held.synced:
		return nil
	case name != "":
		return held.handle.Named(name)
	}
	return held.handle.List(namespace, selector)
}
