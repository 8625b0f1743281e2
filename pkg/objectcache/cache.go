// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Cache holds objects of any kind for its users, with as few watches as they need and the API server allows. Its methods may be called
// concurrently.
type Cache struct {
	ctx  context.Context
	open openFunc

	mu    sync.Mutex // before that of any feed
	feeds map[feedKey]*feed

	definitions definitions

	tidying atomic.Bool
	// received is the number of bytes since the garbage collector was adapted, and tidied the size when the cache was tidied after it had grown.
	received, tidied atomic.Int64

	running sync.WaitGroup
	stopMu  sync.Mutex
	stopped bool // nothing is started any more
}

// Options are the choices of an engine's operator.
type Options struct {
	// KeepManagedFields keeps metadata.managedFields, which are usually half of an object.
	KeepManagedFields bool
}

// New returns a cache that reads from the API server of the configuration until the context ends. Call Wait after that.
func New(ctx context.Context, config *rest.Config, options Options) (*Cache, error) {
	open, err := opener(config, options.KeepManagedFields)
	if err != nil {
		return nil, err
	}
	return newCache(ctx, open), nil
}

func newCache(ctx context.Context, open openFunc) *Cache {
	return &Cache{ctx: ctx, open: open, feeds: map[feedKey]*feed{}}
}

// Wait returns when the context has ended and nothing of the cache runs any more.
func (c *Cache) Wait() {
	<-c.ctx.Done()
	c.stopMu.Lock()
	c.stopped = true
	c.stopMu.Unlock()
	c.running.Wait()
}

// start runs the function in a goroutine that Wait waits for.
func (c *Cache) start(run func()) {
	c.stopMu.Lock()
	defer c.stopMu.Unlock()
	if !c.stopped {
		c.running.Go(run)
	}
}

// Request selects what a user wants to see.
type Request struct {
	// Resource is what is watched. It need not be served yet.
	Resource schema.GroupVersionResource
	// Namespace, Name and Selector narrow what the user sees. Empty and nil mean all.
	Namespace, Name string
	Selector        labels.Selector

	// OnChange is called for every object that the user sees when it is added (old is nil), changed, or deleted or no longer selected (new
	// is nil). Calls are sequential and in order. A slow user delays no other user, but gets several changes of one object as one, and no
	// call for an object that was added and deleted meanwhile. Optional.
	OnChange func(old, new *RawObject)
	// OnSynced is called after OnChange has been called for all initial objects, before it is called for any change of them. Optional.
	OnSynced func()
	// OnProblem is called with what keeps the resource from being listed or watched, and with nil when it can be. Optional.
	OnProblem func(problem error)
}

// Acquire makes the cache hold the requested objects until the handle is released. It does not wait for them: see [Handle.Synced]. It returns
// an error for a request that can never be fulfilled, and when the cache's context has ended.
func (c *Cache) Acquire(request Request) (*Handle, error) {
	if request.Resource.Version == "" || request.Resource.Resource == "" {
		return nil, errors.New("acquiring a watch: the request names no resource, or not its version")
	}
	within, err := newScope(request.Namespace, request.Name, request.Selector)
	if err != nil {
		return nil, fmt.Errorf("acquiring a watch of %s: %w", describe(request.Resource), err)
	}
	if c.ctx.Err() != nil {
		return nil, fmt.Errorf("acquiring a watch of %s: %w", describe(request.Resource), context.Cause(c.ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.feedFor(request.Resource, &within)
	ctx, stop := context.WithCancel(c.ctx)
	user := &Handle{scope: within, request: request, queue: newQueue(), stop: stop}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admit(user)
	c.start(func() {
		defer stop()
		user.notify(ctx)
	})
	f.activate()
	f.steer()
	return user, nil
}

// Retry ends the wait of a resource that could not be listed or watched. Call it when its CRD has changed.
func (c *Cache) Retry(of schema.GroupResource) { c.each(of, (*source).retry) }

// each calls a function for all sources of a resource, with the feed's mu held.
func (c *Cache) each(of schema.GroupResource, do func(*source)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, f := range c.feeds {
		if key.resource.GroupResource() == of {
			f.eachSource(do)
		}
	}
}

// release removes a user from its feed, and ends the feed with the last user.
func (c *Cache) release(user *Handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := user.feed.Load()
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, there := f.users[user]; !there {
		return
	}
	delete(f.users, user)
	user.stop()
	f.settle()
}
