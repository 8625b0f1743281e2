// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/merge"
	"millwright.dev/pkg/objectcache"
)

const (
	// maxAtOnce is how many writes of one sync are on their way at the same time.
	maxAtOnce = 16
	// maxBatch is how many are begun before it is looked whether they succeed.
	maxBatch = 256
	// maxErrors is how many errors of one sync are told.
	maxErrors = 5
)

// apply carries out a plan. Whatever becomes of a child, the others and the status are written. The finalizer goes last, when all of that
// has succeeded: nobody would do afterwards what a process that dies has left undone.
func (s *parentSync) apply(ctx context.Context, p *plan) (time.Duration, error) {
	outcomes, errs := s.carryOut(ctx, p)
	for _, stuck := range p.stuck {
		outcomes = append(outcomes, outcome{eventStuck, stuck})
	}
	errs = append(errs, p.problems...)
	if p.status != nil {
		errs = append(errs, s.putStatus(ctx, p.status))
	}
	for _, e := range append(eventsOf(outcomes), p.warnings()...) {
		s.Recorder.Event(s.parent, e.eventType, e.reason, controller.Truncate(e.message, maxMessage))
	}
	if err := summed(errs); err != nil {
		if onlyTooLarge(errs) {
			err = controller.Permanent(err)
		}
		return p.requeueAfter, err
	}
	return p.requeueAfter, s.setFinalizer(ctx, false, p.removeFinalizer)
}

// carryOut takes the steps in their order, those of one type and verb several at a time: first one, then four times as many as
// have succeeded before, so that where all fail not all are tried at once.
func (s *parentSync) carryOut(ctx context.Context, p *plan) (outcomes []outcome, errs []error) {
	batch := 1
	for steps := p.steps; len(steps) > 0; {
		n := 1
		for n < min(len(steps), batch) && steps[n].verb == steps[0].verb && steps[n].in == steps[0].in {
			n++
		}
		results := make([]result, n)
		controller.Parallel(n, maxAtOnce, func(i int) { results[i] = s.take(ctx, steps[i]) })
		batch = min(4*batch, maxBatch)
		for i, r := range results {
			if r.err != nil {
				errs = append(errs, r.err)
				batch = 1
			}
			outcomes = append(outcomes, s.learn(p, steps[i], r)...)
		}
		steps = steps[n:]
	}
	return outcomes, errs
}

// changes are what steps count as.
var changes = map[verb]string{verbCreate: changeCreated, verbUpdate: changeUpdated, verbRecreate: changeRecreated, verbDelete: changeDeleted}

// result of a step.
type result struct {
	done bool
	// resourceVersion of the object that was written, or was there.
	resourceVersion string
	// taken tells that an object of the name is there which is not the parent's, and stale that it is the parent's and our watch
	// has not shown it yet.
	taken, stale bool
	// futile tells that to create the child again would change nothing, which is why it was not deleted.
	futile bool
	err    error
}

// take one step.
func (s *parentSync) take(ctx context.Context, step childStep) result {
	klog.FromContext(ctx).V(4).Info("Applying", "step", step)
	name := step.in.at(step.child.namespace, step.child.name)
	var written *objectcache.RawObject
	var err error
	switch step.verb {
	case verbDelete, verbRecreate:
		if step.trial != nil {
			if futile, err := s.try(ctx, step); futile || err != nil {
				return result{futile: futile, err: err}
			}
		}
		err = s.writer.Delete(ctx, name, step.uid)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it has gone, or another one has its name
			return result{}
		}
	default:
		var body []byte
		if body, err = json.Marshal(step.object); err != nil {
			return result{err: fmt.Errorf("encoding %s: %w", step.child, err)}
		}
		if step.verb == verbCreate {
			written, err = s.writer.Create(ctx, name, body)
		} else {
			written, err = s.writer.Update(ctx, name, body)
		}
	}
	switch {
	case err == nil && written == nil:
		return result{done: true}
	case err == nil:
		return result{done: true, resourceVersion: written.GetResourceVersion()}
	case step.verb == verbCreate && apierrors.IsAlreadyExists(err):
		return s.whoseIsIt(ctx, step)
	case step.verb == verbCreate && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return result{} // nothing is to be there
	case step.verb == verbUpdate && apierrors.IsNotFound(err):
		return result{}
	default:
		verb := map[verb]string{verbCreate: "create", verbUpdate: "update"}[step.verb]
		if verb == "" {
			verb = "delete"
		}
		return result{err: refused(hook.ReasonInvalidChild, asTooLarge(s.denied(step.in, verb, fmt.Errorf("%s: %w", step, err))))}
	}
}

// try creates a child in a dry run, and reports whether to create it again changes nothing. Without that the child is not deleted.
func (s *parentSync) try(ctx context.Context, step childStep) (futile bool, err error) {
	body, err := json.Marshal(step.trial.object)
	if err != nil {
		return false, fmt.Errorf("encoding %s: %w", step.child, err)
	}
	created, err := s.writer.TryCreate(ctx, step.in.at(step.child.namespace, ""), body)
	if err != nil {
		return false, s.denied(step.in, "create", fmt.Errorf("creating %s in a dry run, to see whether it would be another one: %w", step.child, err))
	}
	tree, err := treeOf(created)
	if err != nil {
		return false, fmt.Errorf("reading what a dry run has made of %s: %w", step.child, err)
	}
	return step.trial.futile(tree, merge.Update)
}

// whoseIsIt looks at an object that exists although we have not observed it as a child.
func (s *parentSync) whoseIsIt(ctx context.Context, step childStep) result {
	if s.state.memory.children[step.child].taken {
		return result{taken: true} // it was looked at before
	}
	o, err := s.writer.Get(ctx, step.in.at(step.child.namespace, step.child.name))
	switch {
	case apierrors.IsNotFound(err):
		return result{stale: true}
	case err != nil:
		return result{err: s.denied(step.in, "get", fmt.Errorf("looking at %s, which exists: %w", step.child, err))}
	case o.ControllerUID() == s.parent.GetUID():
		return result{stale: true, resourceVersion: o.GetResourceVersion()}
	default:
		return result{taken: true}
	}
}

// learn from a step.
func (s *parentSync) learn(p *plan, step childStep, r result) []outcome {
	if tooLarge, ok := errors.AsType[*tooLargeError](r.err); ok {
		s.state.memory.tooLarge(step, tooLarge.text)
	}
	switch {
	case r.taken:
		p.requeue(takenRetry)
		s.block(p, step)
		if s.state.memory.exists(step.child) {
			return []outcome{{controller.ReasonResourceExists, step.child}}
		}
	case r.futile:
		if s.state.memory.changesNothing(step) {
			return []outcome{{eventStuck, step.child}}
		}
	case r.stale:
		p.requeue(controller.StaleCacheDelay)
		if r.resourceVersion != "" {
			s.wrote(s.childHandle(step.in), r.resourceVersion) // an earlier process did
		}
	case r.done:
		s.changed = true
		s.state.memory.done(step, r.resourceVersion)
		countChild(s.h.name, changes[step.verb])
		if r.resourceVersion != "" {
			s.wrote(s.childHandle(step.in), r.resourceVersion)
		}
		return []outcome{outcomeOf(step)}
	}
	return nil
}

// block has the parent synced when the object goes that is in the way of a child.
func (s *parentSync) block(p *plan, step childStep) {
	child := s.childIndex(step.in)
	s.h.blocked.add(place{child, step.child.namespace, step.child.name}, s.key)
	if s.h.children[child].Get(step.child.namespace, step.child.name) == nil {
		p.requeue(controller.StaleCacheDelay) // it has gone meanwhile, or our watch has not shown it yet
	}
}

func (s *parentSync) childIndex(of resource) int {
	return slices.IndexFunc(s.h.rules.children, func(t childType) bool { return t.resource == of })
}

func (s *parentSync) childHandle(of resource) *objectcache.Handle {
	return s.h.children[s.childIndex(of)]
}

// wrote remembers how far the watch has to come before the parent is synced again.
func (s *parentSync) wrote(handle *objectcache.Handle, resourceVersion string) {
	s.h.written.WroteAt(s.key, handle, resourceVersion)
}

// setFinalizer adds or removes ours, and observes the parent anew. The parent is nil afterwards where it is gone.
func (s *parentSync) setFinalizer(ctx context.Context, add, remove bool) error {
	if !add && !remove {
		return nil
	}
	of := s.h.rules.parent
	finalizers := without(s.parent.GetFinalizers(), s.h.rules.finalizer)
	if add {
		finalizers = append(finalizers, s.h.rules.finalizer)
	}
	written, err := s.putFinalizers(ctx, of.at(s.key.namespace, s.key.name), s.parent, finalizers)
	if apierrors.IsNotFound(err) {
		s.parent = nil
		return nil
	}
	if err != nil {
		return s.denied(of, "update", doing("changing the finalizers of", of, s.parent, err))
	}
	s.changed = true
	s.wrote(s.h.parents, written.GetResourceVersion())
	s.parent = written
	return nil
}

// putStatus writes the status of the parent.
func (s *parentSync) putStatus(ctx context.Context, status map[string]any) error {
	of := s.h.rules.parent
	tree, err := treeOf(s.parent)
	if err != nil {
		return err
	}
	tree["status"] = status
	body, err := json.Marshal(tree)
	if err != nil {
		return fmt.Errorf("encoding the status in the answer of the hook: %w", err)
	}
	before := s.parent.GetResourceVersion()
	written, err := s.writer.UpdateStatus(ctx, of.at(s.key.namespace, s.key.name), body)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if controller.IsTooLarge(err) {
		err = asTooLarge(doing("writing the status of", of, s.parent, err))
		s.state.memory.statusTooLarge(status, before, err.Error())
		return err
	}
	if err != nil {
		if isDenied(err) {
			of.Resource += "/status"
		}
		return refused(hook.ReasonInvalidResponse, s.denied(of, "update", doing("writing the status of", of, s.parent, err)))
	}
	s.changed = true
	s.state.memory.statusDone(status, before, written)
	s.wrote(s.h.parents, written.GetResourceVersion())
	s.parent = written
	return nil
}

// summed is the errors as one, with the first ones in full. One that says that it was decided from an old version goes first: the
// others may be due to that.
func summed(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if stale := slices.IndexFunc(errs, apierrors.IsConflict); stale > 0 {
		errs[0], errs[stale] = errs[stale], errs[0]
	}
	if len(errs) > maxErrors {
		more := fmt.Errorf("and %d more errors", len(errs)-maxErrors)
		errs = append(errs[:maxErrors:maxErrors], more)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
