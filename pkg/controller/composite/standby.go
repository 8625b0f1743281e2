// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/composite/parent"
	"millwright.dev/pkg/objectcache"
)

// standby holds the watches that CompositeControllers need while another process hosts them, so that this one can take over without filling
// caches first. A watch is released when the CompositeController is hosted, which holds the same watch.
type standby struct {
	acquire  func(objectcache.Request) (*objectcache.Handle, error)
	requests func(*v1alpha1.CompositeController) []objectcache.Request

	mu    sync.Mutex
	ended bool
	held  map[types.UID]heldWatches
	ready chan struct{} // closed once all caches that were needed at first are filled
}

// heldWatches are the watches for one generation of a CompositeController.
type heldWatches struct {
	generation int64
	handles    []*objectcache.Handle
}

func (w heldWatches) release() {
	for _, handle := range w.handles {
		handle.Release()
	}
}

// observe acquires the watches that a CompositeController needs as it is now.
func (s *standby) observe(cc *v1alpha1.CompositeController) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.held[cc.UID].generation == cc.Generation {
		return
	}
	next := heldWatches{generation: cc.Generation}
	for _, request := range s.requests(cc) {
		if handle, err := s.acquire(request); err == nil { // an error means that the process ends
			next.handles = append(next.handles, handle)
		}
	}
	s.held[cc.UID].release()
	s.held[cc.UID] = next
}

// release releases the watches of a CompositeController.
func (s *standby) release(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[uid].release()
	delete(s.held, uid)
}

// end prevents that further watches are acquired: this process hosts CompositeControllers itself.
func (s *standby) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// Name implements cache.DoneChecker.
func (s *standby) Name() string { return "parents and children of CompositeControllers" }

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

// standbyRequests returns the requests for the watches that a hosted CompositeController has.
func (c *Controller) standbyRequests(cc *v1alpha1.CompositeController) (requests []objectcache.Request) {
	if cc.DeletionTimestamp != nil || !c.TargetSelector.Matches(labels.Set(cc.Labels)) || parent.CheckSpec(&cc.Spec) != nil {
		return nil
	}
	parents, children := parent.Resources(&cc.Spec)
	for _, child := range children {
		requests = append(requests, objectcache.Request{Resource: child, Namespace: c.Namespace})
	}
	selected, _ := parent.ParentSelector(&cc.Spec) // checked above
	if watchesUnselected(cc) {
		selected = nil
	}
	return append(requests, objectcache.Request{Resource: parents, Namespace: c.Namespace, Selector: selected})
}

// watchesUnselected reports whether parents that are not selected are watched, too: they may have our finalizer.
func watchesUnselected(cc *v1alpha1.CompositeController) bool {
	return parent.HasFinalizeHook(&cc.Spec) || slices.Contains(cc.Finalizers, finalizer)
}

// Synced reports when a standby process is ready to take over.
func (c *Controller) Synced() []cache.DoneChecker { return append(c.Loop.Synced(), c.standby) }
