// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/controller/engine/parent"
	"millwright.dev/pkg/objectcache"
)

// standby holds the watches that declarations need while another process hosts them, so that this one can take over without filling
// caches first. A watch is released when the declaration is hosted, which holds the same watch.
type standby struct {
	kind     parent.Kind
	acquire  func(objectcache.Request) (*objectcache.Handle, error)
	requests func(*parent.Declaration) []objectcache.Request

	mu    sync.Mutex
	ended bool
	held  map[types.UID]heldWatches
	ready chan struct{} // closed once all caches that were needed at first are filled
}

// heldWatches are the watches for one generation of a declaration, with the labels that decide whether this process serves it.
type heldWatches struct {
	generation int64
	labels     map[string]string
	handles    []*objectcache.Handle
}

func (w heldWatches) release() {
	for _, handle := range w.handles {
		handle.Release()
	}
}

// observe acquires the watches that a declaration needs as it is now.
func (s *standby) observe(d *parent.Declaration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.held[d.UID]; s.ended || held.generation == d.Generation && maps.Equal(held.labels, d.Labels) {
		return
	}
	next := heldWatches{generation: d.Generation, labels: d.Labels}
	for _, request := range s.requests(d) {
		if handle, err := s.acquire(request); err == nil { // an error means that the process ends
			next.handles = append(next.handles, handle)
		}
	}
	s.held[d.UID].release()
	s.held[d.UID] = next
}

// release releases the watches of a declaration.
func (s *standby) release(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[uid].release()
	delete(s.held, uid)
}

// end prevents that further watches are acquired: this process hosts declarations itself.
func (s *standby) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// Name implements cache.DoneChecker.
func (s *standby) Name() string { return "parents and children of " + string(s.kind) + "s" }

// Done implements cache.DoneChecker. Only a call of it closes the channel, as the calls of /readyz do. A resource that cannot be watched, because
// it is not served or not allowed, is not waited for.
func (s *standby) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ready:
		return s.ready
	default:
	}
	for _, w := range s.held {
		if slices.ContainsFunc(w.handles, func(h *objectcache.Handle) bool { return !h.HasSynced() && h.Problem() == nil }) {
			return s.ready
		}
	}
	close(s.ready)
	return s.ready
}

// standbyRequests returns the requests for the watches that a hosted declaration has.
func (c *Controller) standbyRequests(d *parent.Declaration) (requests []objectcache.Request) {
	if d.DeletionTimestamp != nil || !c.TargetSelector.Matches(labels.Set(d.Labels)) || d.CheckSpec() != nil {
		return nil
	}
	for _, child := range d.ChildResources() {
		requests = append(requests, objectcache.Request{Resource: child, Namespace: c.Namespace})
	}
	for _, of := range d.ParentResources() {
		request := objectcache.Request{Resource: of, Namespace: c.Namespace}
		if !watchesUnselected(d) {
			request.Selector = d.ParentSelector(of)
		}
		requests = append(requests, request)
	}
	return requests
}

// watchesUnselected reports whether parents that are not selected are watched, too: they may have our finalizer.
func watchesUnselected(d *parent.Declaration) bool { return d.Finalizes() || hasFinalizer(d) }

// Synced reports when a standby process is ready to take over.
func (c *Controller) Synced() []cache.DoneChecker { return append(c.Loop.Synced(), c.standby) }
