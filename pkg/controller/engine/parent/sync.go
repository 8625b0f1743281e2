// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/objectcache"
)

// parentSync is one sync of one parent.
type parentSync struct {
	*Controller
	key Key
	of  *parents
	// definitions is the number of changes of definitions when the sync began.
	definitions uint64
	// parent as it was observed, or as our last write left it.
	parent *objectcache.RawObject
	state  *parentState
	// called is the hook of this sync.
	called phase
	// strays are ControllerRevisions of the parent that record no revision of it.
	strays []object
	// answered reports whether the hook has answered.
	answered bool
	// changed reports whether anything was written.
	changed bool
	// problem is what the author of the hook has to know of a sync that has not failed, and refused the same of orphans that were not adopted.
	problem, refused *Problem
	// again is when to sync again although nothing has failed, 0 for never: an answer may mean that the parent is gone, or something else.
	again time.Duration
}

// RightsRetryInterval is how often an operation is tried again for which the engine lacks a right, or whose object the API server does not find: no event
// shows that the right was granted, or that the type is served again.
const RightsRetryInterval = 15 * time.Second

// Sync reconciles the children and the status of a parent with what its hook answers. A positive duration requeues the parent.
func (c *Controller) Sync(ctx context.Context, k Key) (time.Duration, error) {
	if !c.enter() {
		return 0, nil // the next Controller queues all parents
	}
	defer c.leave()
	// Checked before anything is read: what is read afterwards is at least as new.
	if !c.started.Load() {
		return 0, nil
	}
	if !c.written.IsReady(k) {
		c.written.RequeueUnlessReady(k, c.Queue.Enqueue)
		return 0, controller.ErrPostponed
	}
	definitions := c.redefinitions.current() // before it is checked whether all is as they have it
	if c.isReloading() {
		return controller.StaleCacheDelay, controller.ErrPostponed
	}
	of := c.parentsOf(k.Resource)
	if of == nil {
		return 0, nil // its type was one of an earlier generation of the spec
	}
	parent := of.handle.Get(k.Namespace, k.Name)
	if parent == nil || !c.spec.isParent(of.parentType, parent) {
		c.forget(of, k)
		return 0, nil
	}
	s := &parentSync{Controller: c, key: k, of: of, definitions: definitions, parent: parent}
	after, err := s.reconcile(ctx)
	s.waitForDefinitions()
	switch {
	case errors.Is(err, errNotRelated):
		return 0, err
	case controller.IsRetriedQuietly(err):
		return after, err // no failure: the decision was made from a stale cache, or the kind of the parent is new
	case err != nil && c.calls.Err() != nil:
		return 0, nil // stopped
	}
	return s.finish(ctx, after, err)
}

// isLeftToOlder reports whether a parent is left to an older CompositeController, and keeps why. A parent that has our finalizer and is to be
// finalized is not left: it could never be deleted.
func (s *parentSync) isLeftToOlder(first hookPlan) bool {
	problem, _ := s.overlap.Load().on(s.parent.Labels())
	if problem == nil || hasFinalizer(s.parent, s.spec.finalizer) && first.hook != phaseSync {
		return false
	}
	s.problem = problem
	return true
}

// finish reports the result of the sync, and returns when the next one is due.
func (s *parentSync) finish(ctx context.Context, after time.Duration, err error) (time.Duration, error) {
	countSync(s.spec.kind, s.name, s.result(err))
	after = controller.EarliestDelay(after, s.again)
	problem := problemOf(err)
	if err == nil {
		problem = cmp.Or(s.problem, s.refused)
	}
	wake, doubtful := s.failures.conclude(s.key, s.called, s.answered, err, problem)
	s.Queue.EnqueueResync(wake...)
	if doubtful {
		s.syncAnother()
	}
	if s.failures.haveChanged(s.parentCount()) {
		s.Changed()
	}
	if s.resync > 0 {
		// With jitter, so that parents which were created together are not synced together for ever.
		after = controller.EarliestDelay(after, wait.Jitter(s.resync*9/10, 0.2))
	}
	if err == nil {
		return after, nil
	}
	failed, ofHook := errors.AsType[*hook.Error](err)
	if ofHook && failed.RetryAfter > 0 {
		klog.FromContext(ctx).V(2).Info("Postponed the call of the hook", "reason", failed.Reason, "after", failed.RetryAfter)
		return controller.EarliestDelay(after, jitter(failed.RetryAfter)), nil
	}
	if ctx.Err() == nil {
		e := syncError(err)
		s.Recorder.Event(s.parent, e.Type, e.Reason, e.Message)
	}
	if ofHook {
		err = hookError{err.Error()} // its connection error is none of the API server, and its body is not logged
	}
	if _, denied := errors.AsType[*deniedError](err); denied {
		after = controller.EarliestDelay(after, RightsRetryInterval)
	}
	return after, err
}

// syncAnother queues another parent, if there is one.
func (s *parentSync) syncAnother() {
	for _, of := range s.Controller.parents {
		for _, name := range of.states.Keys() {
			if k := s.keyOf(of, name.Namespace, name.Name); k != s.key {
				s.Queue.EnqueueResync(k)
				return
			}
		}
	}
}

// jitter lengthens a delay that the hook asks for, so that parents which were rejected together do not return together. The result is at
// most hook.MaxRetryAfter.
func jitter(delay time.Duration) time.Duration {
	return wait.Jitter(min(delay, hook.MaxRetryAfter*9/10), 0.1)
}

// hookError is the text of a hook's error, without the errors that it wraps.
type hookError struct{ text string }

func (e hookError) Error() string { return e.text }

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

// reconcile sets our finalizer, gathers the children, calls the hook, and applies the plan that follows from its answer. A parent that is left to an older
// CompositeController only loses our finalizer, if there is no finalize hook any more.
func (s *parentSync) reconcile(ctx context.Context) (time.Duration, error) {
	first := s.spec.planHook(s.of.parentType, s.parent)
	left := s.isLeftToOlder(first)
	if err := s.setFinalizer(ctx, first.addFinalizer && !left, first.removeFinalizer); err != nil || s.parent == nil {
		return 0, err
	}
	if left || first.hook == phaseNone {
		return 0, nil
	}
	s.called = first.hook
	if err := s.readSelector(); err != nil {
		return 0, err
	}
	views, err := s.views()
	if err != nil {
		return 0, err
	}
	if err := s.relate(ctx, views); err != nil {
		return 0, err
	}
	children, err := s.gather(ctx)
	if err != nil || s.parent == nil {
		return 0, err
	}
	defer releaseAnswers(views)
	if err := s.callHooks(ctx, children, views); err != nil {
		return 0, err
	}
	s.answered = true
	return s.followAnswers(ctx, children, views)
}

// lastAnswer is an answer whose plan was empty, with what it answered. The same answer to the same state has an empty plan again.
type lastAnswer struct {
	known  bool
	called phase
	// sum is a hash of the answer, observed one of the versions of parent and children, and related one of those of the related objects.
	sum, observed, related uint64
	// statusBy is the older CompositeController that the status was left to.
	statusBy     string
	requeueAfter time.Duration
}

// equal reports whether both are the same answer to the same state.
func (a *lastAnswer) equal(b *lastAnswer) bool {
	return a.known == b.known && a.called == b.called && a.sum == b.sum && a.observed == b.observed && a.related == b.related && a.statusBy == b.statusBy
}

// followAnswers decides what the answers lead to, and applies the plan.
func (s *parentSync) followAnswers(ctx context.Context, children *children, views []*view) (time.Duration, error) {
	_, older := s.overlap.Load().on(s.parent.Labels())
	answered, related := sumsOf(views)
	this := lastAnswer{known: true, called: s.called, sum: answered, observed: children.versions(s.parent), related: related, statusBy: older}
	if s.state.lastAnswer.equal(&this) {
		return s.state.lastAnswer.requeueAfter, nil
	}
	s.state.lastAnswer = lastAnswer{}
	for _, v := range views {
		if err := s.decodeAnswer(ctx, v); err != nil {
			return 0, err
		}
	}
	o := observed{
		parent:   s.parent,
		of:       s.of.parentType,
		selector: s.state.selector,
		children: children.byKey,
		related:  related,
		called:   s.called,
		answer:   views[0].decoded,
		sum:      answered,
		rolling:  s.rolling(views),
		strays:   s.strays,
		history:  s.state.history,
		statusBy: older,
		now:      time.Now(),
	}
	p, err := s.spec.decide(o, s.spec.merger())
	if err != nil {
		return 0, err
	}
	before := s.state.history.of(s.parent, o.now).answers
	s.state.history, s.problem = p.history, p.problem
	if p.isEmpty(o.resyncAfter()) {
		this.requeueAfter = p.requeueAfter
		s.state.lastAnswer = this
		return p.requeueAfter, nil
	}
	after, err := s.apply(ctx, &p)
	if err != nil {
		s.state.history.answers = before // what has failed has led to nothing
	}
	return after, err
}
