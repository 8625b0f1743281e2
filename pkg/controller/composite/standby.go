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
	"millwright.dev/pkg/objectcache"
)

// standby watches what CompositeControllers need while another process serves them, so that this one can take over at once. A watch is
// given back when the CompositeController is served, whose watches are the same.
type standby struct {
	acquire  func(objectcache.Request) (*objectcache.Handle, error)
	requests func(*v1alpha1.CompositeController) []objectcache.Request

	mu    sync.Mutex
	over  bool
	warm  map[types.UID]warm
	ready chan struct{} // closed once all has been watched that was needed at first
}

type warm struct {
	generation int64
	handles    []*objectcache.Handle
}

func (w warm) release() {
	for _, handle := range w.handles {
		handle.Release()
	}
}

// observe a CompositeController as it is now.
func (s *standby) observe(cc *v1alpha1.CompositeController) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.warm[cc.UID].generation == cc.Generation {
		return
	}
	next := warm{generation: cc.Generation}
	for _, request := range s.requests(cc) {
		if handle, err := s.acquire(request); err == nil { // else the process ends
			next.handles = append(next.handles, handle)
		}
	}
	s.warm[cc.UID].release()
	s.warm[cc.UID] = next
}

// release gives back what is held for a CompositeController.
func (s *standby) release(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warm[uid].release()
	delete(s.warm, uid)
}

// end lets nothing be acquired any more: this process serves.
func (s *standby) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// Name implements cache.DoneChecker.
func (s *standby) Name() string { return "parents and children of CompositeControllers" }

// Done implements cache.DoneChecker for who asks now and then, as /readyz does: nothing closes the channel but asking for it. What cannot
// be watched, for it is not served or not allowed, is not waited for.
func (s *standby) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ready:
		return s.ready
	default:
	}
	for _, w := range s.warm {
		if slices.ContainsFunc(w.handles, func(h *objectcache.Handle) bool { return !h.HasSynced() && h.Problem() == nil }) {
			return s.ready
		}
	}
	close(s.ready)
	return s.ready
}

// standbyRequests are for the watches with which the CompositeController will be served.
func (c *Controller) standbyRequests(cc *v1alpha1.CompositeController) (requests []objectcache.Request) {
	if cc.DeletionTimestamp != nil || !c.TargetSelector.Matches(labels.Set(cc.Labels)) || checkSpec(&cc.Spec) != nil {
		return nil
	}
	parent, children := wanted(&cc.Spec)
	for _, child := range children {
		requests = append(requests, objectcache.Request{Resource: child, Namespace: c.Namespace})
	}
	selected, _ := parentSelector(&cc.Spec) // checked above
	if watchesAll(cc) {
		selected = nil
	}
	return append(requests, objectcache.Request{Resource: parent, Namespace: c.Namespace, Selector: selected})
}

// watchesAll tells whether parents that are not selected have to be watched too: those that have our finalizer.
func watchesAll(cc *v1alpha1.CompositeController) bool {
	return finalizes(cc) || slices.Contains(cc.Finalizers, finalizerOfController)
}

// Synced tells of a process that stands by when it is ready to take over.
func (c *Controller) Synced() []cache.DoneChecker { return append(c.Loop.Synced(), c.standby) }
