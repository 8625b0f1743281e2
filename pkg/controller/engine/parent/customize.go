// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/related"
)

// customizedFor is how long an answer of a customize hook is used, at least, before a sync asks again although the parent is the same. It is
// Metacontroller's interval: the answer may depend on more than the parent.
const customizedFor = 20 * time.Minute

// customized is the last answer of the customize hook for a parent. The zero value is none.
type customized struct {
	rules *related.Rules
	// asked is a hash of what the hook was asked about, and resourceVersion that of the parent for which the hash was made last.
	asked           uint64
	resourceVersion string
	expires         time.Time
	// sum is a hash of the answer.
	sum uint64
}

// errNotRelated is returned while the watches of related objects are being filled. The parent is queued when they are.
var errNotRelated = fmt.Errorf("the related objects are not observed yet: %w", controller.ErrPostponed)

// relatedError is the error of related objects that cannot be observed.
type relatedError struct{ err error }

func (e *relatedError) Error() string { return e.err.Error() }
func (e *relatedError) Unwrap() error { return e.err }

// problem returns what the author of the hook or the administrator of the engine can do about the error, nil if nothing.
func (e *relatedError) problem() *Problem {
	switch {
	case apierrors.IsForbidden(e.err):
		message := e.Error() // it names the role that is enough
		if missing, ok := errors.AsType[*objectcache.ForbiddenError](e.err); ok && missing.Namespace == "" {
			message += "; the rules of ClusterRoles with the label " + aggregationLabel + " are added to it"
		}
		return &Problem{v1alpha1.ReasonForbidden, message}
	case apierrors.IsNotFound(e.err), apierrors.IsMethodNotSupported(e.err):
		return &Problem{string(hook.ReasonRelatedNotServed), e.Error()}
	}
	return nil
}

// relate asks the customize hook for the rules of the related objects, unless its last answer still holds, and selects the objects: for each view of the
// parent. Nothing is selected before all of them are observed.
func (s *parentSync) relate(ctx context.Context, views []*view) error {
	if !s.spec.customize {
		return nil
	}
	for _, v := range views {
		if err := s.customize(ctx, v); err != nil {
			return err
		}
	}
	for _, v := range views {
		key := relatedKey{s.key, v.older()}
		if status := s.related.Ensure(key, s.state.customized[v.older()].rules); !status.Synced {
			return unrelated(status)
		}
		selection, status := s.related.Select(key)
		if !status.Synced {
			return unrelated(status)
		}
		v.related = selection
	}
	return nil
}

func unrelated(status related.Status) error {
	if status.Problem == nil {
		return errNotRelated
	}
	return &relatedError{status.Problem}
}

// customize calls the customize hook if the view of the parent has changed since its last answer, apart from its status.
func (s *parentSync) customize(ctx context.Context, v *view) error {
	known := s.state.customizedFor(v.older())
	version := s.parent.GetResourceVersion()
	if known.resourceVersion != version {
		asked, err := contentOf(v.parent)
		if err != nil {
			return err
		}
		if asked != known.asked {
			known.rules = nil
		}
		known.asked, known.resourceVersion = asked, version
	}
	if known.rules != nil && time.Now().Before(known.expires) {
		return nil
	}
	called := s.called
	s.called = phaseCustomize // the hook that an error is about
	rules, sum, err := s.callCustomize(ctx, v, known)
	if err != nil {
		return err
	}
	s.called = called
	s.Queue.EnqueueResync(s.failures.wake(phaseCustomize)...)
	known.rules, known.sum, known.expires = rules, sum, time.Now().Add(wait.Jitter(customizedFor, 0.1))
	return nil
}

// callCustomize calls the customize hook, and compiles its answer.
func (s *parentSync) callCustomize(ctx context.Context, v *view, known *customized) (*related.Rules, uint64, error) {
	called := s.hooks[phaseCustomize]
	answer, err := s.call(ctx, called, v, hook.NewCustomizeRequest(hook.CustomizeRequest{Controller: *s.controllerJSON.Load(), Parent: v.parent.JSON()}))
	if err != nil {
		return nil, 0, err
	}
	defer answer.Release()
	if known.rules != nil && known.sum == answer.Sum {
		return known.rules, answer.Sum, nil
	}
	if err := answer.Reserve(ctx); err != nil {
		return nil, 0, err
	}
	rules := called.Rules()
	response, err := hook.DecodeCustomize(answer.Body, rules)
	if err != nil {
		return nil, 0, err
	}
	parsed, err := related.Parse(response.RelatedResources, related.Bounds{
		Version: rules.Version, Receiver: s.receiver(), Strict: rules.Strict, ParentNamespace: s.key.Namespace, EngineNamespace: s.Namespace,
	})
	if err != nil {
		return nil, 0, err
	}
	for _, warning := range append(response.Warnings, parsed.Warnings...) {
		klog.FromContext(ctx).V(2).Info("The answer of the hook has a defect", "hook", called.URL(), "warning", warning)
	}
	served, err := s.served.find(ctx, s.key, parsed.Resources(), s.Discover)
	if err != nil {
		return nil, 0, err
	}
	compiled, err := parsed.Resolve(served)
	return compiled, answer.Sum, err
}

// receiver returns the version of the hooks that get the related objects, the highest if there are two.
func (c *Controller) receiver() (highest hook.Version) {
	for _, called := range []phase{phaseSync, phaseFinalize} {
		if of := c.hooks[called]; of != nil {
			highest = max(highest, of.Rules().Version)
		}
	}
	return highest
}
