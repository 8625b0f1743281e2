// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package related

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/objectcache"
)

// fakeCache is an object cache whose watches are synced when a test wants it.
type fakeCache struct {
	t  testing.TB
	mu sync.Mutex
	// objects are what there is.
	objects map[place]*objectcache.RawObject
	handles []*fakeHandle
	// manual leaves new watches without a first state.
	manual bool
	queued map[int]int // how often each key was queued
}

type fakeHandle struct {
	cache    *fakeCache
	request  objectcache.Request
	released bool
	synced   bool
}

func newFakeCache(t testing.TB) (*fakeCache, *Watcher[int]) {
	c := &fakeCache{t: t, objects: map[place]*objectcache.RawObject{}, queued: map[int]int{}}
	w := newWatcher(c.acquire, func(keys ...int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, key := range keys {
			c.queued[key]++
		}
	}, func() {})
	t.Cleanup(w.Close)
	return c, w
}

func (c *fakeCache) acquire(request objectcache.Request) (handle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &fakeHandle{cache: c, request: request}
	c.handles = append(c.handles, h)
	return h, nil
}

// settle gives all watches their first state, unless the test does it.
func (c *fakeCache) settle() {
	if c.manual {
		return
	}
	for _, h := range c.held() {
		h.sync()
	}
}

// held are the watches that are not released.
func (c *fakeCache) held() (held []*fakeHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.handles {
		if !h.released {
			held = append(held, h)
		}
	}
	return held
}

// names are those of the held watches, sorted.
func (c *fakeCache) names() []string {
	names := []string{}
	for _, h := range c.held() {
		names = append(names, h.name())
	}
	slices.Sort(names)
	return names
}

func (h *fakeHandle) name() string {
	r := h.request
	e := extent{resource: r.Resource, namespace: r.Namespace, name: r.Name, selector: textOf(r.Selector)}
	return e.String()
}

func (c *fakeCache) handle(name string) *fakeHandle {
	c.t.Helper()
	for _, h := range c.held() {
		if h.name() == name {
			return h
		}
	}
	c.t.Fatalf("there is no watch of %s, but %q", name, c.names())
	return nil
}

// sync gives a watch its first state.
func (h *fakeHandle) sync() {
	h.cache.mu.Lock()
	if h.synced || h.released {
		h.cache.mu.Unlock()
		return
	}
	h.synced = true
	var initial []*objectcache.RawObject
	for at, o := range h.cache.objects {
		if at.resource == h.request.Resource && h.within(o) != nil {
			initial = append(initial, o)
		}
	}
	h.cache.mu.Unlock()
	h.request.OnProblem(nil)
	for _, o := range initial {
		h.request.OnChange(nil, o)
	}
	h.request.OnSynced()
}

func (h *fakeHandle) within(o *objectcache.RawObject) *objectcache.RawObject {
	r := h.request
	if o == nil || r.Namespace != "" && o.GetNamespace() != r.Namespace || r.Name != "" && o.GetName() != r.Name {
		return nil
	}
	if r.Selector != nil && !r.Selector.Matches(o.Labels()) {
		return nil
	}
	return o
}

// set makes an object what it is, and notifies the watches.
func (c *fakeCache) set(resource schema.GroupVersionResource, namespace, name string, o *objectcache.RawObject) {
	c.mu.Lock()
	at := place{resource, namespace, name}
	before := c.objects[at]
	if c.objects[at] = o; o == nil {
		delete(c.objects, at)
	}
	var notify []func()
	for _, h := range c.handles {
		if h.released || !h.synced || h.request.Resource != resource {
			continue
		}
		if was, is := h.within(before), h.within(o); was != nil || is != nil {
			notify = append(notify, func() { h.request.OnChange(was, is) })
		}
	}
	c.mu.Unlock()
	for _, call := range notify {
		call()
	}
}

// takeQueued returns the keys that were queued since the last call, sorted.
func (c *fakeCache) takeQueued() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := slices.Sorted(maps.Keys(c.queued))
	clear(c.queued)
	return keys
}

// read is what a handle reads: nothing before the first state, or after the release.
func (h *fakeHandle) read(matches func(o *objectcache.RawObject) bool) (found []*objectcache.RawObject) {
	h.cache.mu.Lock()
	defer h.cache.mu.Unlock()
	if h.released || !h.synced {
		h.cache.t.Errorf("%s is read while synced is %t and released %t", h.name(), h.synced, h.released)
	}
	for at, o := range h.cache.objects {
		if at.resource == h.request.Resource && h.within(o) != nil && matches(o) {
			found = append(found, o)
		}
	}
	return found
}

func (h *fakeHandle) Get(namespace, name string) *objectcache.RawObject {
	for _, o := range h.read(func(o *objectcache.RawObject) bool { return o.GetNamespace() == namespace && o.GetName() == name }) {
		return o
	}
	return nil
}

func (h *fakeHandle) Named(name string) []*objectcache.RawObject {
	return h.read(func(o *objectcache.RawObject) bool { return o.GetName() == name })
}

func (h *fakeHandle) List(namespace string, selector labels.Selector) []*objectcache.RawObject {
	return h.read(func(o *objectcache.RawObject) bool {
		return (namespace == "" || o.GetNamespace() == namespace) && (selector == nil || selector.Matches(o.Labels()))
	})
}

func (h *fakeHandle) Release() {
	h.cache.mu.Lock()
	defer h.cache.mu.Unlock()
	if h.released {
		h.cache.t.Errorf("%s is released twice", h.name())
	}
	h.released = true
}
