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
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/hook/credentials"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/objectcache/objectwriter"
	"millwright.dev/pkg/related"
)

// errStopped is the cause with which hook calls are cancelled when a Controller is stopped.
var errStopped = errors.New("the controller of the hook was changed or deleted")

// Key is the key of a parent in the work queue. The UID is that of its Declaration.
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
	Declaration *Declaration
	Spec        *Spec
	// WatchUnselected watches parents that no rule of the Declaration selects, too.
	WatchUnselected bool
	// Namespace of parents and children; "" for all.
	Namespace string
	Objects   *objectcache.Cache
	Writer    *objectwriter.Writer
	// FieldManager is the manager of the fields of children that are written by server-side apply.
	FieldManager string
	Hooks        *hook.Client
	Credentials  *credentials.Source
	Recorder     record.EventRecorder
	Queue        Queue
	// Discover returns how the API server serves resources, without those that it does not serve.
	Discover func(context.Context, []schema.GroupVersionResource) (map[schema.GroupVersionResource]Resource, error)
	// Changed is called when Health or AnyFinalizer may have changed for another reason than a call of a method. It must not block.
	Changed func()
}

// Controller syncs the parents of one Declaration. It serves one generation of the spec: another Controller replaces it when the
// spec changes.
type Controller struct {
	Config
	name string
	uid  types.UID
	spec *Spec
	// resync is the interval in which parents are synced without a change, 0 for never.
	resync time.Duration
	// controllerJSON is the Declaration as hooks see it.
	controllerJSON atomic.Pointer[string]
	// overlap with older CompositeControllers.
	overlap atomic.Pointer[Overlap]

	hooks map[phase]*hook.Hook
	// held are the credentials of the hooks.
	held     *credentials.Hold
	parents  []*parents
	children []*objectcache.Handle // in the order of Spec.children
	orphans  *orphanIndex
	blocked  *blockedParents
	// related watches the related objects, nil without a customize hook, and served is how the API server serves them.
	related *related.Watcher[relatedKey]
	served  servedResources
	// records watches ControllerRevisions, nil if no children roll, and older are the older revisions of parents.
	records *objectcache.Handle
	older   olderRevisions
	release []func()

	// started reports whether parents may be synced. Before that, changes of them are not queued.
	started       atomic.Bool
	written       controller.ConsistencyStore[Key]
	failures      failures
	redefinitions redefinitions

	mu sync.Mutex
	// syncs counts the running syncs. None begins when stopped is true.
	syncs   sync.WaitGroup
	stopped bool
	// calls is the context of all hook calls.
	calls       context.Context
	cancelCalls context.CancelCauseFunc
}

// parents are the parents of one type.
type parents struct {
	*parentType
	handle *objectcache.Handle
	states controller.Memory[parentState]
}

// New returns a Controller that watches parents and children but syncs nothing before Start. The problem is one of the Declaration's hooks;
// only one of problem and error is set.
func New(config Config) (_ *Controller, problem *Problem, err error) {
	d := config.Declaration
	c := &Controller{
		Config:  config,
		name:    d.Name,
		uid:     d.UID,
		spec:    config.Spec,
		hooks:   map[phase]*hook.Hook{},
		orphans: newOrphanIndex(),
		blocked: newBlockedParents(),
	}
	if c.spec.customize {
		c.related = related.NewWatcher(config.Objects, c.relatedChanged, config.Changed)
		c.release = append(c.release, c.related.Close)
	}
	c.calls, c.cancelCalls = context.WithCancelCause(context.Background())
	defer func() {
		if problem != nil || err != nil {
			c.Stop()
		}
	}()
	if seconds := d.ResyncPeriodSeconds; seconds != nil {
		c.resync = max(time.Duration(*seconds)*time.Second, time.Second)
	}
	if err := c.SetMetadata(d); err != nil {
		return nil, nil, err
	}
	if problem := c.makeHooks(d); problem != nil {
		return nil, problem, nil
	}
	if err := c.watch(); err != nil {
		return nil, nil, err
	}
	return c, nil, nil
}

func (c *Controller) makeHooks(d *Declaration) *Problem {
	var refs []credentials.Ref
	for _, called := range c.spec.phases() {
		config := d.hookConfig(called)
		config.Source = c.Credentials
		wrap, forget := instrument(d.Kind, d.Name, called, config.Address())
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
func (c *Controller) watch() error {
	for _, of := range c.spec.parents {
		selector := of.watched()
		if c.WatchUnselected {
			selector = nil
		}
		p := &parents{parentType: of}
		handle, err := c.acquire(of.Resource, selector, func(before, after *objectcache.RawObject) { c.parentChanged(p, before, after) })
		if err != nil {
			return err
		}
		p.handle = handle
		c.parents = append(c.parents, p)
	}
	for i, child := range c.spec.children {
		handle, err := c.acquire(child.Resource, nil, func(before, after *objectcache.RawObject) { c.childChanged(i, before, after) })
		if err != nil {
			return err
		}
		c.children = append(c.children, handle)
	}
	if !c.spec.rolls {
		return nil
	}
	handle, err := c.acquire(controllerRevisions, nil, c.recordChanged)
	c.records = handle
	return err
}

func (c *Controller) acquire(
	of Resource, selector labels.Selector, onChange func(before, after *objectcache.RawObject),
) (*objectcache.Handle, error) {
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

// Defined takes over that the definition of a resource was added, changed or deleted, or its status was. Parents that need it for related objects,
// and have missed it, are queued.
func (c *Controller) Defined(of schema.GroupResource) {
	c.Queue.Enqueue(c.served.defined(of)...)
}

// SetMetadata takes over the metadata of the Declaration, which hooks see.
func (c *Controller) SetMetadata(d *Declaration) error {
	text, err := d.controllerJSON()
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
	c.eachParent(func(of *parents, parent *objectcache.RawObject) {
		if !before.agrees(&overlap, parent.Labels()) {
			c.Queue.Enqueue(c.parentKey(of, parent))
		}
	})
}

// AnyFinalizer reports whether a parent has the finalizer of the Declaration, by the watches of parents.
func (c *Controller) AnyFinalizer() bool {
	return slices.ContainsFunc(c.parents, func(of *parents) bool {
		return slices.ContainsFunc(of.handle.List("", nil), func(parent *objectcache.RawObject) bool { return hasFinalizer(parent, c.spec.finalizer) })
	})
}
