// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// concernedBy a change of a CompositeController are that one, and those with the same type of parents.
func (c *Controller) concernedBy(cc *v1alpha1.CompositeController) []key {
	keys := []key{controllerKey(cc.Name)}
	of, err := gvr(cc.Spec.ParentResource.ResourceRule)
	if err != nil {
		return keys
	}
	for _, other := range c.selected() {
		if parent, err := gvr(other.Spec.ParentResource.ResourceRule); err == nil && other.Name != cc.Name && parent.GroupResource() == of.GroupResource() {
			keys = append(keys, controllerKey(other.Name))
		}
	}
	return keys
}

// selected are the CompositeControllers that this process serves, if they can be.
func (c *Controller) selected() []*v1alpha1.CompositeController {
	all, _ := c.lister.List(labels.Everything()) // a cache returns no error
	return slices.DeleteFunc(all, func(cc *v1alpha1.CompositeController) bool { return !c.TargetSelector.Matches(labels.Set(cc.Labels)) })
}

// observeRivals keeps which older CompositeControllers have the same parents. Parents for which that makes a difference are synced.
func (c *Controller) observeRivals(cc *v1alpha1.CompositeController, h *hosted) {
	now := overlapOf(cc, c.selected())
	before := h.overlap.Load()
	if before != nil && before.same(&now) {
		return
	}
	h.overlap.Store(&now)
	if before == nil || !h.ready.Load() {
		return // all are synced when it is
	}
	for _, parent := range h.parents.List("", nil) {
		if h.rules.counts(parent) && !before.agrees(&now, parent.Labels()) {
			c.Enqueue(h.parentKey(parent.GetNamespace(), parent.GetName()))
		}
	}
}

// isLeft reports whether a parent is left to an older CompositeController, and keeps why. One that has our finalizer and is to be
// finalized is not: it would never go.
func (s *parentSync) isLeft() bool {
	wrong, _ := s.h.overlap.Load().on(s.parent.Labels())
	if wrong == nil || hasFinalizer(s.parent, s.h.rules.finalizer) && s.h.rules.open(s.parent).hook != phaseSync {
		return false
	}
	s.problem = wrong
	return true
}
