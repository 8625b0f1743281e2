// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/composite/parent"
)

// finalizer keeps a CompositeController until the finalizers that it has put on parents are removed.
const finalizer = "millwright.dev/compositecontroller"

// syncFinalizer adds our finalizer to a CompositeController before any parent gets one of it, and removes ours when no parent has one any more.
func (c *Controller) syncFinalizer(ctx context.Context, cc *v1alpha1.CompositeController, s *state) (*v1alpha1.CompositeController, error) {
	wanted := parent.HasFinalizeHook(&cc.Spec)
	has := slices.Contains(cc.Finalizers, finalizer)
	switch {
	case wanted && !has:
		return c.patchFinalizers(ctx, cc, append(slices.Clone(cc.Finalizers), finalizer))
	case has && !wanted && len(formerParents(cc)) == 0 && s.hosted.isOf(cc) && s.hosted.Started() && !s.hosted.AnyFinalizer():
		return c.patchFinalizers(ctx, cc, without(cc.Finalizers, finalizer))
	}
	return cc, nil
}

// syncDeleted removes the finalizers of a CompositeController that is being deleted from all parents, then ours from it. No hook is called: it
// may be deleted as well.
func (c *Controller) syncDeleted(ctx context.Context, cc *v1alpha1.CompositeController, s *state) (time.Duration, error) {
	c.stop(s)
	s.problem = nil
	if !slices.Contains(cc.Finalizers, finalizer) {
		return 0, nil
	}
	err := c.clearAllParents(ctx, cc)
	if apierrors.IsForbidden(err) {
		if _, err := c.updateStatus(ctx, cc, s, health{problem: uncleared(err)}); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	_, err = c.patchFinalizers(ctx, cc, without(cc.Finalizers, finalizer))
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return 0, err
}

// clearFormerParents removes the finalizer of a CompositeController from parents of former types, once the current ones are hosted: until then
// the edit may be a mistake. A missing right is returned as a problem.
func (c *Controller) clearFormerParents(ctx context.Context, cc *v1alpha1.CompositeController) (*v1alpha1.CompositeController, *parent.Problem, error) {
	former := formerParents(cc)
	for _, of := range former {
		err := c.clearParents(ctx, of, cc.Name)
		if apierrors.IsForbidden(err) {
			return cc, uncleared(err), nil
		}
		if err != nil {
			return cc, nil, err
		}
	}
	isFormer := func(of v1alpha1.ResourceRule) bool { return slices.Contains(former, of) }
	cc, err := c.updateRecord(ctx, cc, slices.DeleteFunc(slices.Clone(cc.Status.FinalizedParents), isFormer))
	return cc, nil, err
}

// clearAllParents removes the finalizer of a CompositeController from the parents of all types that may have it.
func (c *Controller) clearAllParents(ctx context.Context, cc *v1alpha1.CompositeController) error {
	for _, of := range append(formerParents(cc), cc.Spec.ParentResource.ResourceRule) {
		if err := c.clearParents(ctx, of, cc.Name); err != nil {
			return err
		}
	}
	return nil
}

// clearParents removes the finalizer of a CompositeController from all parents of one type, in whichever version it is served.
func (c *Controller) clearParents(ctx context.Context, rule v1alpha1.ResourceRule, compositeController string) error {
	of, err := parent.ResourceOf(rule)
	if err != nil {
		return nil // an invalid type never had parents
	}
	of, served, err := c.inServedVersion(ctx, of)
	if err != nil || !served {
		return err // a type that is not served has no objects any more
	}
	return c.removeFinalizers(ctx, of, compositeController)
}

func uncleared(err error) *parent.Problem {
	return &parent.Problem{Reason: v1alpha1.ReasonForbidden, Message: "finalizers cannot be removed from parents: " + err.Error()}
}

func without(list []string, removed string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == removed })
}
