// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/objectcache"
)

// Health is how a Controller does. Each problem is nil if there is none.
type Health struct {
	// Synced reports whether the caches of parents, children and credentials are filled.
	Synced bool
	// Watch is why parents or children are not watched.
	Watch *Problem
	// Overlap is why no parent is synced: an older CompositeController has all of them.
	Overlap *Problem
	// Parent is why the last sync of a parent failed.
	Parent *Problem
}

// Health returns how the Controller does. SetOverlap must have been called.
func (c *Controller) Health() Health {
	return Health{Synced: c.hasSynced(), Watch: c.watchProblem(), Overlap: c.overlap.Load().always(), Parent: c.failures.current()}
}

// hasSynced reports whether parents, children and credentials are all observed.
func (c *Controller) hasSynced() bool {
	for _, handle := range c.handles() {
		if !handle.HasSynced() {
			return false
		}
	}
	return c.held.HasSynced()
}

// watchProblem is why parents or children are not watched; nil if they are, or soon will be.
func (c *Controller) watchProblem() *Problem {
	for i, handle := range c.handles() {
		err := handle.Problem()
		if err == nil {
			continue
		}
		of, missing := c.spec.parent, v1alpha1.ReasonParentNotServed
		if i < len(c.spec.children) {
			of, missing = c.spec.children[i].Resource, v1alpha1.ReasonChildNotServed
		}
		switch {
		case apierrors.IsForbidden(err):
			return forbidden(of, "list", "watch")
		case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
			return &Problem{missing, err.Error()}
		}
	}
	return nil
}

// handles returns all watches, that of parents last.
func (c *Controller) handles() []*objectcache.Handle {
	return append(c.children[:len(c.children):len(c.children)], c.parents)
}
