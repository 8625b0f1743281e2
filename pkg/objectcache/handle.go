// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Handle is the access of one user to a resource. The user sees what it requested, whatever other users request. Reads do not copy objects;
// before [Handle.HasSynced] they may be incomplete.
type Handle struct {
	feed    atomic.Pointer[feed]
	scope   scope
	request Request
	queue   *queue
	stop    context.CancelFunc
	active  bool // gets changes; guarded by the feed's mu
}

// Release releases the handle. No call to OnChange or OnProblem begins after it, but one may still run. It may be called twice.
func (h *Handle) Release() { h.feed.Load().cache.release(h) }

// view returns the feed, locked for reading.
func (h *Handle) view() *feed {
	for {
		f := h.feed.Load()
		f.mu.RLock()
		if h.feed.Load() == f {
			return f
		}
		f.mu.RUnlock() // the user has moved meanwhile
	}
}

// Get returns the object, or nil. The namespace of cluster-scoped objects is "".
func (h *Handle) Get(namespace, name string) *RawObject {
	f := h.view()
	defer f.mu.RUnlock()
	return h.scope.within(f.objects.get(objectName{namespace, name}))
}

// Named returns the objects of that name in all namespaces, in no order.
func (h *Handle) Named(name string) []*RawObject {
	f := h.view()
	defer f.mu.RUnlock()
	var found []*RawObject
	for namespace := range f.objects.namespaces {
		if o := h.scope.within(f.objects.get(objectName{namespace, name})); o != nil {
			found = append(found, o)
		}
	}
	return found
}

// OwnedBy returns the objects whose controller has that UID, in a namespace or, if that is "", everywhere, in no order.
func (h *Handle) OwnedBy(controller types.UID, namespace string) []*RawObject {
	f := h.view()
	defer f.mu.RUnlock()
	bucket := f.objects.owned[controller]
	found := make([]*RawObject, 0, len(bucket))
	for _, o := range bucket {
		if (namespace == "" || o.GetNamespace() == namespace) && h.scope.matches(o) {
			found = append(found, o)
		}
	}
	return found
}

// Ownerless returns the objects without a controller that the selector matches, in a namespace or, if that is "", everywhere, in
// no order. A nil selector matches all.
func (h *Handle) Ownerless(namespace string, selector labels.Selector) []*RawObject {
	f := h.view()
	defer f.mu.RUnlock()
	var found []*RawObject
	f.objects.eachOwnerless(namespace, func(o *RawObject) {
		if (selector == nil || selector.Matches(o.Labels())) && h.scope.matches(o) {
			found = append(found, o)
		}
	})
	return found
}

// List returns the objects that the selector matches, in a namespace or, if that is "", everywhere, in no order. A nil selector
// matches all. It costs as much as there are objects in the namespace, or with the rarest label value that the selector demands.
func (h *Handle) List(namespace string, selector labels.Selector) []*RawObject {
	f := h.view()
	if missing := f.objects.unindexed(namespace, selector); len(missing) > 0 {
		f.mu.RUnlock()
		f.mu.Lock()
		f.objects.index(missing)
		f.mu.Unlock()
		f = h.view()
	}
	defer f.mu.RUnlock()
	return f.list(h, namespace, selector)
}

func (f *feed) list(user *Handle, namespace string, selector labels.Selector) []*RawObject {
	var found []*RawObject
	f.objects.eachLabelled(namespace, selector, func(o *RawObject) {
		if (selector == nil || selector.Matches(o.Labels())) && user.scope.matches(o) {
			found = append(found, o)
		}
	})
	return found
}

// HasSynced reports whether OnChange has been called for all initial objects.
func (h *Handle) HasSynced() bool { return cache.IsDone(h.Synced()) }

// Synced is HasSynced for cache.WaitFor.
func (h *Handle) Synced() cache.DoneChecker { return syncedChecker{h} }

type syncedChecker struct{ handle *Handle }

func (s syncedChecker) Name() string          { return describe(s.handle.request.Resource) }
func (s syncedChecker) Done() <-chan struct{} { return s.handle.queue.synced }

// Problem returns why the resource cannot be listed or watched, or nil. Objects that were seen before can still be read.
func (h *Handle) Problem() error { return h.queue.currentProblem() }

// LastStoreSyncResourceVersion returns the resourceVersion up to which changes can be read here, for a consistency store. It may decrease
// when the watch is widened or narrowed, or the user moves to another one.
func (h *Handle) LastStoreSyncResourceVersion() string {
	f := h.view()
	defer f.mu.RUnlock()
	if !h.active {
		return ""
	}
	return f.version
}

// notify calls the user's functions until the context ends.
func (h *Handle) notify(ctx context.Context) {
	for ctx.Err() == nil {
		next, found := h.queue.pop()
		switch {
		case !found:
			select {
			case <-ctx.Done():
			case <-h.queue.signal:
			}
		case next.problemChanged:
			if h.request.OnProblem != nil {
				h.guard(ctx, func() { h.request.OnProblem(next.problem) })
			}
		case next.synced:
			if h.request.OnSynced != nil {
				h.guard(ctx, h.request.OnSynced)
			}
		default:
			if h.request.OnChange != nil && next.old != next.new {
				h.guard(ctx, func() { h.request.OnChange(next.old, next.new) })
			}
			h.queue.done()
		}
	}
}

// guard recovers a panic of one user, so that it does not affect the others.
func (h *Handle) guard(ctx context.Context, call func()) {
	defer func() {
		if panicked := recover(); panicked != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("%v", panicked), "A user of the object cache panicked",
				"resource", describe(h.request.Resource), "stack", string(debug.Stack()))
		}
	}()
	call()
}
