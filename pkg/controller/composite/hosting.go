// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/hook/credentials"
	"millwright.dev/pkg/objectcache"
)

// hosted is a CompositeController that is served: its watches, its hooks, and what is known of its parents. When its spec changes
// another one takes its place.
type hosted struct {
	name  string
	uid   types.UID
	since time.Time
	of    *v1alpha1.CompositeController
	rules *rules
	// resync is how often parents are synced though nothing has changed, 0 for never.
	resync time.Duration
	// shown is the CompositeController as hooks see it.
	shown atomic.Pointer[string]
	// overlap with older CompositeControllers, as it was when one of them changed last.
	overlap atomic.Pointer[overlap]

	hooks map[phase]*hook.Hook
	// credentials of the hooks.
	credentials *credentials.Hold
	parents     *objectcache.Handle
	children    []*objectcache.Handle // as rules.children
	orphans     *orphans
	blocked     *blocked
	release     []func()

	// ready tells that parents may be synced. Until then what happens to them is not even queued.
	ready    atomic.Bool
	written  controller.ConsistencyStore[key]
	failures failures

	mu     sync.Mutex
	states map[cache.ObjectName]*parentState
	// syncs are those under way; none begins once it is closed.
	syncs  sync.WaitGroup
	closed bool
	// calls end with it.
	calling    context.Context
	endCalling context.CancelCauseFunc
}

// parentState is what is known of a parent from its last sync. Only its syncs use it, one at a time.
type parentState struct {
	uid types.UID
	// selector of the parent in that version of its spec.
	selector  labels.Selector
	specified specified
	memory    memory
	last      lastAnswer
}

// specified is a version of a spec. Kinds without a generation have only the resourceVersion to tell.
type specified struct {
	generation      int64
	resourceVersion string
}

func specifiedBy(parent object) specified {
	if generation := parent.GetGeneration(); generation > 0 {
		return specified{generation: generation}
	}
	return specified{resourceVersion: parent.GetResourceVersion()}
}

// lastAnswer is one that led to nothing, and what it was an answer to: the same again leads to nothing again.
type lastAnswer struct {
	known         bool
	called        phase
	sum, observed uint64
	// statusBy is the older CompositeController that the status was left to.
	statusBy     string
	requeueAfter time.Duration
}

// same reports whether both are the same answer to the same.
func (a *lastAnswer) same(as *lastAnswer) bool {
	return a.known == as.known && a.called == as.called && a.sum == as.sum && a.observed == as.observed && a.statusBy == as.statusBy
}

// host begins to serve a CompositeController. wide is to watch parents that are not selected too.
func (c *Controller) host(cc *v1alpha1.CompositeController, r *rules, wide bool) (_ *hosted, wrong *problem, err error) {
	h := &hosted{
		name:    cc.Name,
		uid:     cc.UID,
		since:   time.Now(),
		of:      cc,
		rules:   r,
		hooks:   map[phase]*hook.Hook{},
		orphans: newOrphans(),
		blocked: newBlocked(),
		states:  map[cache.ObjectName]*parentState{},
	}
	h.calling, h.endCalling = context.WithCancelCause(context.Background())
	defer func() {
		if wrong != nil || err != nil {
			h.close()
		}
	}()
	if seconds := cc.Spec.ResyncPeriodSeconds; seconds != nil {
		h.resync = max(time.Duration(*seconds)*time.Second, time.Second)
	}
	if err := h.show(cc); err != nil {
		return nil, nil, err
	}
	if wrong := c.makeHooks(h, cc); wrong != nil {
		return nil, wrong, nil
	}
	return h, nil, c.acquire(h, wide)
}

func (c *Controller) makeHooks(h *hosted, cc *v1alpha1.CompositeController) *problem {
	var refs []credentials.Ref
	for _, called := range []phase{phaseSync, phaseFinalize} { // in an order, so that of two problems the same one is told each time
		if called == phaseSync && !h.rules.sync || called == phaseFinalize && !h.rules.finalize {
			continue
		}
		config := hookConfig(cc, called)
		config.Source = c.credentials
		wrap, forget := instrument(cc.Name, called, config.Address())
		config.Instrument = wrap
		h.release = append(h.release, forget)
		made, err := c.hooks.NewHook(h.calling, config)
		if err != nil {
			return hookProblem(err)
		}
		h.release = append(h.release, made.Close)
		h.hooks[called] = made
		refs = append(refs, credentials.RefsOf(made.Access())...)
	}
	h.credentials = c.credentials.Hold(func() { c.Enqueue(controllerKey(h.name)) }, refs...)
	h.release = append(h.release, h.credentials.Release)
	return nil
}

// acquire watches parents and children.
func (c *Controller) acquire(h *hosted, wide bool) error {
	request := func(of resource, selector labels.Selector, onChange func(before, after *objectcache.RawObject)) (*objectcache.Handle, error) {
		request := objectcache.Request{
			Resource:  of.GroupVersionResource,
			Selector:  selector,
			OnChange:  onChange,
			OnProblem: func(error) { c.Enqueue(controllerKey(h.name)) },
		}
		if of.Namespaced {
			request.Namespace = c.Namespace
		}
		handle, err := c.Objects.Acquire(request)
		if err == nil {
			h.release = append(h.release, handle.Release)
		}
		return handle, err
	}
	selected := h.rules.parents
	if wide {
		selected = nil
	}
	var err error
	if h.parents, err = request(h.rules.parent, selected, func(before, after *objectcache.RawObject) { c.parentChanged(h, before, after) }); err != nil {
		return err
	}
	for i, child := range h.rules.children {
		handle, err := request(child.resource, nil, func(before, after *objectcache.RawObject) { c.childChanged(h, i, before, after) })
		if err != nil {
			return err
		}
		h.children = append(h.children, handle)
	}
	return nil
}

// show is called with the CompositeController as it is now.
func (h *hosted) show(cc *v1alpha1.CompositeController) error {
	text, err := controllerJSON(cc)
	if err == nil {
		shown := string(text)
		h.shown.Store(&shown)
	}
	return err
}

// enter lets a sync begin, unless h is closed. It must leave.
func (h *hosted) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.syncs.Add(1)
	}
	return !h.closed
}

func (h *hosted) leave() { h.syncs.Done() }

// close lets no sync begin any more, ends calls of hooks, waits for what is being written, and gives back all that is held.
func (h *hosted) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.ready.Store(false)
	h.endCalling(errReplaced)
	h.syncs.Wait()
	for _, release := range h.release {
		release()
	}
}

// state of a parent, as it was left. There is a new one for another object of its name.
func (h *hosted) state(name cache.ObjectName, uid types.UID) (state *parentState, isNew bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	state = h.states[name]
	if state == nil || state.uid != uid {
		state, isNew = &parentState{uid: uid}, true
		h.states[name] = state
		setParents(h.name, len(h.states))
	}
	return state, isNew
}

// forget a parent that is gone, or counts no more.
func (h *hosted) forget(k key) (changed bool) {
	name := cache.NewObjectName(k.namespace, k.name)
	h.mu.Lock()
	state := h.states[name]
	delete(h.states, name)
	setParents(h.name, len(h.states))
	h.mu.Unlock()
	if state != nil {
		for _, hook := range h.hooks {
			hook.Forget(string(state.uid))
		}
	}
	h.orphans.forget(k)
	h.blocked.forget(k)
	h.written.Clear(k)
	changed, _ = h.failures.report(k, "", nil)
	return changed
}

// handles are all watches.
func (h *hosted) handles() []*objectcache.Handle {
	return append(h.children[:len(h.children):len(h.children)], h.parents)
}

// synced tells whether parents, children and credentials are all observed.
func (h *hosted) synced() bool {
	for _, handle := range h.handles() {
		if !handle.HasSynced() {
			return false
		}
	}
	return h.credentials.HasSynced()
}
