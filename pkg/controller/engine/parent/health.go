// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/objectcache"
)

// Health is how a Controller does. Each problem is nil if there is none.
type Health struct {
	// Synced reports whether the caches of parents, children and credentials are filled.
	Synced bool
	// Watch is why parents or children are not watched, and Stalled why changes of them, or of related objects, are not seen although they are.
	Watch, Stalled *Problem
	// Overlap is why no parent is synced: an older CompositeController has all of them.
	Overlap *Problem
	// Failures are the parents whose last sync failed.
	Failures Failures
}

// Health returns how the Controller does. SetOverlap must have been called.
func (c *Controller) Health() Health {
	return Health{
		Synced: c.hasSynced(), Watch: c.watchProblem(), Stalled: c.stalled(), Overlap: c.overlap.Load().always(),
		Failures: c.failures.current(c.parentCount()),
	}
}

// hasSynced reports whether parents, children and credentials are all observed.
func (c *Controller) hasSynced() bool {
	for _, w := range c.watches() {
		if !w.handle.HasSynced() {
			return false
		}
	}
	return c.held.HasSynced()
}

// watchProblem is why parents or children are not watched; nil if they are, or soon will be.
func (c *Controller) watchProblem() *Problem {
	for _, w := range c.watches() {
		err := w.handle.Problem()
		switch {
		case err == nil:
		case apierrors.IsForbidden(err):
			return forbidden(w.of, "list", "watch")
		case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
			return &Problem{w.missing, err.Error() + w.hint}
		}
	}
	return nil
}

// stalled is why changes are not seen; nil if they are, or soon will be.
func (c *Controller) stalled() *Problem {
	for _, w := range c.watches() {
		if problem := stalledBy(w.handle.Problem()); problem != nil {
			return problem
		}
	}
	if c.related != nil {
		return stalledBy(c.related.Problem())
	}
	return nil
}

func stalledBy(err error) *Problem {
	if stalled, ok := errors.AsType[*objectcache.StalledError](err); ok {
		return &Problem{v1alpha1.ReasonWatchStalled, controller.Truncate(stalled.Error(), MaxMessage)}
	}
	return nil
}

// watch is a watch of a Controller. missing is the reason of a resource that is not served, and hint what to do then.
type watch struct {
	of            Resource
	handle        *objectcache.Handle
	missing, hint string
}

// isReloading reports whether the definition of parents or children has changed, and they may not be as it has them yet.
func (c *Controller) isReloading() bool {
	return slices.ContainsFunc(c.watches(), func(w watch) bool { return w.handle.Reloading() })
}

// watches returns all watches, those of parents last.
func (c *Controller) watches() (all []watch) {
	for i, child := range c.spec.children {
		all = append(all, watch{child.Resource, c.children[i], c.spec.kind.childNotServed(), ""})
	}
	if c.records != nil {
		all = append(all, watch{controllerRevisions, c.records, c.spec.kind.childNotServed(), ": rolling updates need its CustomResourceDefinition: apply it"})
	}
	for _, of := range c.parents {
		all = append(all, watch{of.Resource, of.handle, c.spec.kind.parentNotServed(), ""})
	}
	return all
}
