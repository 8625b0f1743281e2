// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/hook/credentials"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/objectcache/objectwriter"
)

// errStopped is the cause with which hook calls are cancelled when a Controller is stopped.
var errStopped = errors.New("the CompositeController was changed or deleted")

// Key is the key of a parent in the work queue. The UID is that of its CompositeController.
type Key struct {
	Controller      types.UID
	Resource        schema.GroupResource
	Namespace, Name string
}

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Resource.String() + " " + k.Name
	}
	return k.Resource.String() + " " + k.Namespace + "/" + k.Name
}

func (k Key) objectName() cache.ObjectName { return cache.NewObjectName(k.Namespace, k.Name) }

// Queue takes the keys of parents that are to be synced.
type Queue interface {
	Enqueue(keys ...Key)
	// EnqueueResync adds keys that have time: changes are synced before them.
	EnqueueResync(keys ...Key)
}

// Config is what a Controller is made of. All fields are required, except where noted.
type Config struct {
	CompositeController *v1alpha1.CompositeController
	Spec                *Spec
	// WatchUnselected watches parents that the label selector of the CompositeController does not match, too.
	WatchUnselected bool
	// Namespace of parents and children; "" for all.
	Namespace   string
	Objects     *objectcache.Cache
	Writer      *objectwriter.Writer
	Hooks       *hook.Client
	Credentials *credentials.Source
	Recorder    record.EventRecorder
	Queue       Queue
	// Changed is called when Health or AnyFinalizer may have changed for another reason than a call of a method. It must not block.
	Changed func()
}

// Controller syncs the parents of one CompositeController. It serves one generation of the spec: another Controller replaces it when the
// spec changes.
type Controller struct {
	Config
	name string
	uid  types.UID
	spec *Spec
	// resync is the interval in which parents are synced without a change, 0 for never.
	resync time.Duration
	// controllerJSON is the CompositeController as hooks see it.
	controllerJSON atomic.Pointer[string]
	// overlap with older CompositeControllers.
	overlap atomic.Pointer[Overlap]

	hooks map[phase]*hook.Hook
	// held are the credentials of the hooks.
	held     *credentials.Hold
	parents  *objectcache.Handle
	children []*objectcache.Handle // in the order of Spec.children
	orphans  *orphanIndex
	blocked  *blockedParents
	release  []func()

	// started reports whether parents may be synced. Before that, changes of them are not queued.
	started  atomic.Bool
	written  controller.ConsistencyStore[Key]
	failures failures

	states controller.Memory[parentState]

	mu sync.Mutex
	// syncs counts the running syncs. None begins when stopped is true.
	syncs   sync.WaitGroup
	stopped bool
	// calls is the context of all hook calls.
	calls       context.Context
	cancelCalls context.CancelCauseFunc
}

// New returns a Controller that watches parents and children but syncs nothing before Start. The problem is one of the CompositeController's
// hooks; only one of problem and error is set.
func New(config Config) (_ *Controller, problem *Problem, err error) {
	cc := config.CompositeController
	c := &Controller{
		Config:  config,
		name:    cc.Name,
		uid:     cc.UID,
		spec:    config.Spec,
		hooks:   map[phase]*hook.Hook{},
		orphans: newOrphanIndex(),
		blocked: newBlockedParents(),
	}
	c.calls, c.cancelCalls = context.WithCancelCause(context.Background())
	defer func() {
		if problem != nil || err != nil {
			c.Stop()
		}
	}()
	if seconds := cc.Spec.ResyncPeriodSeconds; seconds != nil {
		c.resync = max(time.Duration(*seconds)*time.Second, time.Second)
	}
	if err := c.SetMetadata(cc); err != nil {
		return nil, nil, err
	}
	if problem := c.makeHooks(cc); problem != nil {
		return nil, problem, nil
	}
	if err := c.watch(); err != nil {
		return nil, nil, err
	}
	return c, nil, nil
}

func (c *Controller) makeHooks(cc *v1alpha1.CompositeController) *Problem {
	var refs []credentials.Ref
	for _, called := range []phase{phaseSync, phaseFinalize} { // in a fixed order, so that the same one of two problems is reported each time
		if called == phaseSync && !c.spec.sync || called == phaseFinalize && !c.spec.finalize {
			continue
		}
		config := hookConfig(cc, called)
		config.Source = c.Credentials
		wrap, forget := instrument(cc.Name, called, config.Address())
		config.Instrument = wrap
		c.release = append(c.release, forget)
		made, err := c.Hooks.NewHook(c.calls, config)
		if err != nil {
			return hookProblem(err)
		}
		c.release = append(c.release, made.Close)
		c.hooks[called] = made
		refs = append(refs, credentials.RefsOf(made.Access())...)
	}
	c.held = c.Credentials.Hold(c.Changed, refs...)
	c.release = append(c.release, c.held.Release)
	return nil
}

// watch acquires the watches of parents and children.
func (c *Controller) watch() (err error) {
	selector := c.spec.parents
	if c.WatchUnselected {
		selector = nil
	}
	if c.parents, err = c.acquire(c.spec.parent, selector, c.parentChanged); err != nil {
		return err
	}
	for i, child := range c.spec.children {
		handle, err := c.acquire(child.Resource, nil, func(before, after *objectcache.RawObject) { c.childChanged(i, before, after) })
		if err != nil {
			return err
		}
		c.children = append(c.children, handle)
	}
	return nil
}

func (c *Controller) acquire(of Resource, selector labels.Selector, onChange func(before, after *objectcache.RawObject)) (*objectcache.Handle, error) {
	request := objectcache.Request{
		Resource:  of.GroupVersionResource,
		Selector:  selector,
		OnChange:  onChange,
		OnProblem: func(error) { c.Changed() },
	}
	if of.Namespaced {
		request.Namespace = c.Namespace
	}
	handle, err := c.Objects.Acquire(request)
	if err == nil {
		c.release = append(c.release, handle.Release)
	}
	return handle, err
}

// Start starts syncing parents, queues all of them, and returns their number. HasSynced must have been true.
func (c *Controller) Start() (parents int) {
	for _, parent := range c.parents.List("", nil) {
		if !c.spec.isParent(parent) {
			continue
		}
		k := c.parentKey(parent.GetNamespace(), parent.GetName())
		if state, isNew := c.state(k.objectName(), parent.GetUID()); isNew {
			// A selector that cannot be read is reported by the sync of the parent.
			if selector, err := c.spec.selectorOf(parent); err == nil {
				state.selector, state.specVersion = selector, specVersionOf(parent)
				c.orphans.setSelector(k, selector)
			}
		}
	}
	// Each orphan is matched with all selectors here, so that the first sync of each parent need not list all orphans.
	for i, handle := range c.children {
		for _, o := range handle.Ownerless("", nil) {
			c.orphans.observe(location{i, o.GetNamespace(), o.GetName()}, o)
		}
	}
	c.started.Store(true)
	keys := c.knownParents()
	c.Queue.EnqueueResync(keys...)
	return len(keys)
}

// knownParents returns the keys of all parents, and of those that were deleted and not yet forgotten. It is called when changes are queued
// already: each parent that was created or deleted before, while they were not, is among them.
func (c *Controller) knownParents() []Key {
	keys := sets.New[Key]()
	for _, parent := range c.parents.List("", nil) {
		if c.spec.isParent(parent) {
			keys.Insert(c.parentKey(parent.GetNamespace(), parent.GetName()))
		}
	}
	for _, name := range c.states.Keys() {
		keys.Insert(c.parentKey(name.Namespace, name.Name))
	}
	return keys.UnsortedList()
}

// Started reports whether parents are synced.
func (c *Controller) Started() bool { return c.started.Load() }

// Pause stops syncing parents until Start: a resource is not watched, and nothing must be decided from its stale cache.
func (c *Controller) Pause() { c.started.Store(false) }

// Stop ends all syncs, cancels the calls of hooks, waits for running writes, and releases everything that is held.
func (c *Controller) Stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.Pause()
	c.cancelCalls(errStopped)
	c.syncs.Wait()
	for _, release := range c.release {
		release()
	}
}

// enter begins a sync, and returns false if the Controller is stopped. After true the caller must call leave.
func (c *Controller) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.syncs.Add(1)
	}
	return !c.stopped
}

func (c *Controller) leave() { c.syncs.Done() }

// SetMetadata takes over the metadata of the CompositeController, which hooks see.
func (c *Controller) SetMetadata(cc *v1alpha1.CompositeController) error {
	text, err := controllerJSON(cc)
	if err != nil {
		return err
	}
	shown := string(text)
	c.controllerJSON.Store(&shown)
	return nil
}

// SetOverlap takes over which older CompositeControllers have the same parents. Parents for which that makes a difference are queued.
func (c *Controller) SetOverlap(overlap Overlap) {
	before := c.overlap.Load()
	if before != nil && before.equal(&overlap) {
		return
	}
	c.overlap.Store(&overlap)
	if before == nil || !c.started.Load() {
		return // Start queues all
	}
	for _, parent := range c.parents.List("", nil) {
		if c.spec.isParent(parent) && !before.agrees(&overlap, parent.Labels()) {
			c.Queue.Enqueue(c.parentKey(parent.GetNamespace(), parent.GetName()))
		}
	}
}

// AnyFinalizer reports whether a parent has the finalizer of the CompositeController, by the watch of parents.
func (c *Controller) AnyFinalizer() bool {
	return slices.ContainsFunc(c.parents.List("", nil), func(parent *objectcache.RawObject) bool { return hasFinalizer(parent, c.spec.finalizer) })
}
