// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/objectcache/objectwriter"
)

// stepResult is the result of a step.
type stepResult struct {
	done bool
	// resourceVersion of the object that was written, or existed.
	resourceVersion string
	// remaining are the differences that the object has although it was written as desired, if step.desired is set.
	remaining differences
	// foreign reports whether a foreign object has the name, and stale whether the parent owns that object and our watch has not shown it yet.
	foreign, stale bool
	// terminating reports whether the namespace of the child is being deleted, so that nothing is created there.
	terminating bool
	// lost reports whether the API server does not find the child: it was deleted, or its type is not served for a while, which no event shows.
	lost bool
	// recreates reports whether an update became a recreation.
	recreates bool
	// futile reports whether a recreation would change nothing. Then the child was not deleted. It is asDesired if an apply would change nothing either.
	futile, asDesired bool
	err               error
}

// at returns the name of an object for a request.
func (r Resource) at(namespace, name string) objectwriter.Name {
	return objectwriter.Name{Resource: r.GroupVersionResource, Namespace: namespace, Name: name}
}

func (s *parentSync) applyStep(ctx context.Context, step childStep) stepResult {
	klog.FromContext(ctx).V(4).Info("Applying", "step", step)
	name := step.in.at(step.child.namespace, step.child.name)
	switch {
	case step.serverSide && (step.verb == verbRecreate || step.orRecreate):
		return s.applyOrRecreate(ctx, step, name)
	case step.verb == verbDelete || step.verb == verbRecreate:
		return s.deleteChild(ctx, step, name)
	case step.switched || step.orRecreate:
		return s.updateManaged(ctx, step, name)
	}
	return s.applyWrite(ctx, step, name)
}

// applyWrite writes a child.
func (s *parentSync) applyWrite(ctx context.Context, step childStep, name objectwriter.Name) stepResult {
	written, err := s.writeChild(ctx, step, name)
	switch {
	case err == nil:
		return s.resultOf(step, written)
	case step.exists(err):
		return s.checkOwnership(ctx, step)
	case step.verb == verbCreate && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return stepResult{terminating: true}
	case step.verb == verbUpdate && apierrors.IsNotFound(err):
		return stepResult{lost: true}
	}
	return s.failed(step, step.deniedVerb(err), err)
}

// resultOf returns the result of a step that has written an object.
func (s *parentSync) resultOf(step childStep, written *objectcache.RawObject) stepResult {
	r := stepResult{done: true, resourceVersion: written.GetResourceVersion()}
	if step.desired != nil {
		// What was written could be merged, so that the result can be.
		r.remaining, _ = remainingAfter(written, step.desired, s.spec.merger())
	}
	return r
}

// deleteChild deletes a child, unless a trial shows that its recreation changes nothing.
func (s *parentSync) deleteChild(ctx context.Context, step childStep, name objectwriter.Name) stepResult {
	if step.trial != nil {
		if futile, err := s.dryRun(ctx, step); futile || err != nil {
			return stepResult{futile: futile, err: err}
		}
	}
	err := s.Writer.Delete(ctx, name, step.uid)
	switch {
	case err == nil:
		return stepResult{done: true}
	case apierrors.IsNotFound(err):
		return stepResult{lost: true}
	case apierrors.IsConflict(err): // another object has its name
		return stepResult{}
	}
	return s.failed(step, "delete", err)
}

func (s *parentSync) failed(step childStep, verb string, err error) stepResult {
	return stepResult{err: asRejected(hook.ReasonInvalidChild, asTooLarge(s.denied(step.in, verb, fmt.Errorf("%s: %w", step, err))))}
}

// dryRun makes the trial of a step: it creates the child in a dry run, and reports whether a recreation changes nothing. After an error the
// child is not deleted.
func (s *parentSync) dryRun(ctx context.Context, step childStep) (futile bool, err error) {
	body, err := json.Marshal(step.trial.object)
	if err != nil {
		return false, fmt.Errorf("encoding %s: %w", step.child, err)
	}
	created, err := s.Writer.TryCreate(ctx, step.in.at(step.child.namespace, ""), body)
	if step.trial.dropped && isRefusal(err) {
		return true, nil
	}
	if err != nil {
		return false, s.denied(step.in, "create", fmt.Errorf("creating %s in a dry run, to see whether it would differ: %w", step.child, err))
	}
	tree, err := treeOf(created)
	if err != nil {
		return false, fmt.Errorf("reading the result of a dry run of %s: %w", step.child, err)
	}
	return step.trial.futile(tree, s.spec.merger())
}

// isRefusal reports whether the API server, admission or a quota refuses a request, which a retry does not change.
func isRefusal(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code/100 == 4 && !apierrors.IsTooManyRequests(err)
}

// checkOwnership gets an object that exists although it was not observed as a child.
func (s *parentSync) checkOwnership(ctx context.Context, step childStep) stepResult {
	if s.state.history.children.of(step.child).foreign {
		return stepResult{foreign: true} // checked before
	}
	o, err := s.Writer.Get(ctx, step.in.at(step.child.namespace, step.child.name))
	switch {
	case apierrors.IsNotFound(err):
		return stepResult{stale: true}
	case err != nil:
		return stepResult{err: s.denied(step.in, "get", fmt.Errorf("getting %s, which exists: %w", step.child, err))}
	case o.ControllerUID() == s.parent.GetUID() && s.spec.mayHaveCreated(o, s.parent.GetUID()):
		return stepResult{stale: true, resourceVersion: o.GetResourceVersion()}
	default:
		return stepResult{foreign: true}
	}
}
