// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"errors"
	"slices"
	"time"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/objectcache"
)

const (
	// maxParallelWrites is the number of writes of one sync that run concurrently.
	maxParallelWrites = 16
	// maxBatch is the number of writes that are begun before their results are looked at.
	maxBatch = 256
)

// apply applies a plan. Whatever the result for one child is, the others and the status are written. The finalizer is removed last, when all of
// that has succeeded: afterwards nothing would finish what a crashed process has left undone.
func (s *parentSync) apply(ctx context.Context, p *plan) (time.Duration, error) {
	if err := s.applyRecords(ctx, p.records); err != nil {
		return p.requeueAfter, err
	}
	s.state.history.recorded = true
	childEvents, errs := s.applySteps(ctx, p)
	for _, stuck := range p.stuck {
		childEvents = append(childEvents, childEvent{eventStuck, stuck})
	}
	errs = append(errs, p.problems...)
	errs = append(errs, s.writeParent(ctx, p)...)
	for _, e := range append(eventsOf(childEvents), p.warnings()...) {
		s.Recorder.Event(s.parent, e.Type, e.Reason, controller.Truncate(e.Message, MaxMessage))
	}
	if err := join(errs); err != nil {
		return p.requeueAfter, err
	}
	return p.requeueAfter, s.setFinalizer(ctx, false, p.removeFinalizer)
}

// applySteps applies the steps in their order, steps of one type and verb concurrently: first one, then four times as many as have succeeded
// before, so that not all are tried where all fail.
func (s *parentSync) applySteps(ctx context.Context, p *plan) (childEvents []childEvent, errs []error) {
	batch := 1
	for steps := p.steps; len(steps) > 0; {
		n := 1
		for n < min(len(steps), batch) && steps[n].verb == steps[0].verb && steps[n].in == steps[0].in {
			n++
		}
		results := make([]stepResult, n)
		controller.Parallel(n, maxParallelWrites, func(i int) { results[i] = s.applyStep(ctx, steps[i]) })
		batch = min(4*batch, maxBatch)
		for i, r := range results {
			if r.err != nil {
				errs = append(errs, r.err)
				batch = 1
			}
			childEvents = append(childEvents, s.recordResult(p, steps[i], r)...)
		}
		steps = steps[n:]
	}
	return childEvents, errs
}

// recordResult records the result of a step, and returns the events that follow.
func (s *parentSync) recordResult(p *plan, step childStep, r stepResult) []childEvent {
	if refused, ok := errors.AsType[*tooLargeError](r.err); ok {
		s.state.history.recordTooLarge(step, refused.text)
	}
	if r.recreates {
		step.verb = verbRecreate
	}
	switch {
	case r.foreign:
		p.requeue(foreignRetryInterval)
		s.block(p, step)
		if s.state.history.recordForeign(step.child) {
			return []childEvent{{controller.ReasonResourceExists, step.child}}
		}
	case r.terminating && step.child.namespace != s.key.Namespace:
		p.requeue(namespaceRetryInterval)
	case r.lost:
		s.again = RightsRetryInterval
	case r.futile:
		if s.state.history.recordFutile(step) && !r.asDesired {
			return []childEvent{{eventStuck, step.child}}
		}
	case r.stale:
		p.requeue(controller.StaleCacheDelay)
		if r.resourceVersion != "" {
			s.recordWrite(s.childHandle(step.in), r.resourceVersion) // an earlier process wrote it
		}
	case r.done:
		s.changed = true
		s.state.history.recordDone(step, r.resourceVersion)
		if len(r.remaining) > 0 {
			s.state.history.recordRemaining(step, r.remaining)
		}
		if s.spec.children[s.childIndex(step.in)].rollsInPlace() && r.resourceVersion == step.resourceVersion {
			p.requeue(controller.StaleCacheDelay) // no event shows that the rolling update need not wait for it
		}
		countChild(s.spec.kind, s.name, changes[step.verb])
		if r.resourceVersion != "" {
			s.recordWrite(s.childHandle(step.in), r.resourceVersion)
		}
		return []childEvent{childEventOf(step)}
	}
	return nil
}

// changes are the values of the metrics label for steps.
var changes = map[verb]string{verbCreate: changeCreated, verbUpdate: changeUpdated, verbRecreate: changeRecreated, verbDelete: changeDeleted}

// block has the parent synced when the foreign object is deleted that has the name of a child.
func (s *parentSync) block(p *plan, step childStep) {
	child := s.childIndex(step.in)
	s.blocked.block(location{child, step.child.namespace, step.child.name}, s.key)
	if s.Controller.children[child].Get(step.child.namespace, step.child.name) == nil {
		p.requeue(controller.StaleCacheDelay) // it was deleted meanwhile, or our watch has not shown it yet
	}
}

func (s *parentSync) childIndex(of Resource) int {
	return slices.IndexFunc(s.spec.children, func(t childType) bool { return t.Resource == of })
}

func (s *parentSync) childHandle(of Resource) *objectcache.Handle {
	return s.Controller.children[s.childIndex(of)]
}

// recordWrite records a write in the consistency store: the parent is not synced before the watch has shown it.
func (s *parentSync) recordWrite(handle *objectcache.Handle, resourceVersion string) {
	s.written.WroteAt(s.key, handle, resourceVersion)
}
