// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
	"millwright.dev/pkg/objectcache"
)

// parentSync is one sync of one parent.
type parentSync struct {
	*Controller
	h   *hosted
	key key
	// parent as it was observed, or as our last write left it.
	parent *objectcache.RawObject
	state  *parentState
	called phase
	// changed tells whether anything was written.
	changed bool
	// problem is what the author of the controller is to know of a sync that has not failed.
	problem *problem
}

// rightsInterval is how often it is tried whether the engine has been given a right that it lacked: nothing tells.
const rightsInterval = 15 * time.Second

func nameOf(k key) cache.ObjectName { return cache.NewObjectName(k.namespace, k.name) }

// syncParent brings the children and the status of a parent to what its hook wants.
func (c *Controller) syncParent(ctx context.Context, k key) (time.Duration, error) {
	c.mu.Lock()
	h := c.hosted[k.controller]
	c.mu.Unlock()
	if h == nil || !h.enter() {
		return 0, nil // whoever serves it next queues all parents
	}
	defer h.leave()
	// Asked before anything is read: what is read afterwards is at least as new.
	if !h.ready.Load() {
		return 0, nil
	}
	if !h.written.IsReady(k) {
		h.written.RequeueUnlessReady(k, c.Enqueue)
		return 0, nil
	}
	parent := h.parents.Get(k.namespace, k.name)
	if parent == nil || !h.rules.counts(parent) {
		if h.forget(k) {
			c.Enqueue(controllerKey(h.name))
		}
		return 0, nil
	}
	s := &parentSync{Controller: c, h: h, key: k, parent: parent}
	if s.isLeft() {
		return s.settle(ctx, 0, nil)
	}
	after, err := s.run(ctx)
	switch {
	case apierrors.IsConflict(err), controller.IsOwnerUnknown(err):
		return after, err // nothing has failed: what it was decided from is old, or the kind of the parent is new
	case err != nil && h.calling.Err() != nil:
		return 0, nil // cut off
	}
	return s.settle(ctx, after, err)
}

// settle tells how the sync went, and when there is to be another one.
func (s *parentSync) settle(ctx context.Context, after time.Duration, err error) (time.Duration, error) {
	countSync(s.h.name, s.result(err))
	problem := problemOf(err)
	if err == nil {
		problem = s.problem
	}
	changed, wake := s.h.failures.report(s.key, s.called, problem)
	if changed {
		s.Enqueue(controllerKey(s.h.name))
	}
	s.EnqueueResync(wake...)
	if s.h.resync > 0 {
		// Spread, so that parents which were created together are not synced together for ever.
		after = earliest(after, wait.Jitter(s.h.resync*9/10, 0.2))
	}
	if err == nil {
		return after, nil
	}
	failed, ofHook := errors.AsType[*hook.Error](err)
	if ofHook && failed.RetryAfter > 0 {
		klog.FromContext(ctx).V(2).Info("The hook is to be called later", "reason", failed.Reason, "after", failed.RetryAfter)
		return earliest(after, spread(failed.RetryAfter)), nil
	}
	if ctx.Err() == nil {
		e := syncError(err)
		s.Recorder.Event(s.parent, e.eventType, e.reason, e.message)
	}
	if ofHook {
		err = hookFailed{err.Error()} // how its connection failed says nothing of the API server, and its body is not logged
	}
	if _, denied := errors.AsType[*deniedError](err); denied {
		after = earliest(after, rightsInterval)
	}
	return after, err
}

// spread is a delay that the hook asks for, with some of it added so that parents which were refused together do not come together. It is at most
// hook.MaxRetryAfter.
func spread(delay time.Duration) time.Duration {
	return wait.Jitter(min(delay, hook.MaxRetryAfter*9/10), 0.1)
}

// hookFailed is the error of a hook.
type hookFailed struct{ text string }

func (e hookFailed) Error() string { return e.text }

func (s *parentSync) result(err error) string {
	switch {
	case err != nil:
		return resultError
	case s.changed:
		return resultChanged
	default:
		return resultUnchanged
	}
}

// run is the sync: first our finalizer, then the children that there are, the hook, and what its answer leads to.
func (s *parentSync) run(ctx context.Context) (time.Duration, error) {
	opening := s.h.rules.open(s.parent)
	if err := s.setFinalizer(ctx, opening.addFinalizer, opening.removeFinalizer); err != nil || s.parent == nil {
		return 0, err
	}
	if opening.hook == phaseNone {
		return 0, nil
	}
	s.called = opening.hook
	if err := s.knowSelector(); err != nil {
		return 0, err
	}
	children, err := s.gather(ctx)
	if err != nil || s.parent == nil {
		return 0, err
	}
	answer, err := s.call(ctx, children)
	if err != nil {
		return 0, err
	}
	defer answer.Release()
	return s.follow(ctx, children, answer)
}

// knowSelector reads the selector, unless the spec is as it was.
func (s *parentSync) knowSelector() error {
	isNew := false
	s.state, isNew = s.h.state(nameOf(s.key), s.parent.GetUID())
	if now := specifiedBy(s.parent); s.state.selector == nil || s.state.specified != now {
		selector, err := s.h.rules.selectorOf(s.parent)
		if err != nil {
			return err
		}
		before := s.state.selector
		s.state.selector, s.state.specified = selector, now
		if before != nil && before.String() == selector.String() {
			return nil
		}
		s.h.orphans.selects(s.key, selector)
		if isNew && s.h.rules.generateSelector {
			return nil // nobody could have known its UID
		}
		for i, handle := range s.h.children {
			for _, o := range handle.Ownerless(s.key.namespace, selector) {
				s.h.orphans.add(s.key, orphan{i, o.GetNamespace(), o.GetName()})
			}
		}
	}
	return nil
}

// call asks the hook.
func (s *parentSync) call(ctx context.Context, children *children) (*hook.Answer, error) {
	called := s.h.hooks[s.called]
	request := hook.NewCompositeRequest(called.Version(), hook.CompositeRequest{
		Controller:      *s.h.shown.Load(),
		Parent:          s.parent.JSON(),
		ParentNamespace: s.key.namespace,
		Children:        children.groups,
		Finalizing:      s.called == phaseFinalize,
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.h.calling, cancel)()
	controller.ExtendSyncLimit(ctx, called.Longest())
	return called.Call(ctx, string(s.parent.GetUID()), request)
}

// follow does what an answer leads to.
func (s *parentSync) follow(ctx context.Context, children *children, answer *hook.Answer) (time.Duration, error) {
	_, older := s.h.overlap.Load().on(s.parent.Labels())
	now := lastAnswer{known: true, called: s.called, sum: answer.Sum, observed: children.observed, statusBy: older}
	if last := s.state.last; last.same(&now) {
		return last.requeueAfter, nil
	}
	s.state.last = lastAnswer{}
	if err := answer.Reserve(ctx); err != nil {
		return 0, err
	}
	of := s.h.hooks[s.called]
	response, err := hook.DecodeComposite(answer.Body, s.h.rules.decodingRules(of.Rules(), s.parent))
	if err != nil {
		return 0, err
	}
	for _, warning := range response.Warnings {
		klog.FromContext(ctx).V(2).Info("The answer of the hook is not what it should be", "hook", of.URL(), "warning", warning)
	}
	p, err := s.h.rules.conclude(observation{
		parent:   s.parent,
		selector: s.state.selector,
		children: children.byKey,
		memory:   s.state.memory,
		answer:   answer.Sum,
		statusBy: older,
		now:      time.Now(),
	}, s.called, response, merge.Update)
	if err != nil {
		return 0, err
	}
	before := s.state.memory.of(s.parent, time.Now()).settling
	s.state.memory, s.problem = p.memory, p.problem
	if p.leadsToNothing(resyncAfter(response)) {
		now.requeueAfter = p.requeueAfter
		s.state.last = now
		return p.requeueAfter, nil
	}
	after, err := s.apply(ctx, &p)
	if err != nil {
		s.state.memory.settling = before // what has failed has led to nothing
	}
	return after, err
}

// leadsToNothing tells that the plan is empty, and stays so until something is observed.
func (p *plan) leadsToNothing(resyncAfter time.Duration) bool {
	return !p.removeFinalizer && len(p.steps) == 0 && p.status == nil && !p.held && len(p.stuck) == 0 && len(p.problems) == 0 && p.problem == nil &&
		p.requeueAfter == resyncAfter
}

// earliest of two delays; zero is none.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
