// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine/parent"
)

// syncFinalizer adds our finalizer to a declaration before any parent gets one of it, and removes ours when no parent has one any more.
func (c *Controller) syncFinalizer(ctx context.Context, d *parent.Declaration, s *state) (*parent.Declaration, error) {
	wanted, has := d.Finalizes(), hasFinalizer(d)
	switch {
	case wanted && !has:
		return c.patchFinalizers(ctx, d, append(slices.Clone(d.Finalizers), finalizerOf(d.Kind)))
	case has && !wanted && len(formerParents(d)) == 0 && s.hosted.isOf(d) && s.hosted.Started() && !s.hosted.AnyFinalizer():
		return c.patchFinalizers(ctx, d, without(d.Finalizers, finalizerOf(d.Kind)))
	}
	return d, nil
}

// syncDeleted removes the finalizers of a declaration that is being deleted from all parents, then ours from it. No hook is called: it
// may be deleted as well.
func (c *Controller) syncDeleted(ctx context.Context, d *parent.Declaration, s *state) (time.Duration, error) {
	c.stop(s)
	s.problem = nil
	if !hasFinalizer(d) {
		return 0, nil
	}
	err := c.clearAllParents(ctx, d)
	if apierrors.IsForbidden(err) {
		if _, err := c.updateStatus(ctx, d, s, health{problem: uncleared(err)}); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	_, err = c.patchFinalizers(ctx, d, without(d.Finalizers, finalizerOf(d.Kind)))
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return 0, err
}

// clearFormerParents removes the finalizer of a declaration from parents of former types, once the current ones are hosted: until then
// the edit may be a mistake. A missing right is returned as a problem.
func (c *Controller) clearFormerParents(ctx context.Context, d *parent.Declaration) (*parent.Declaration, *parent.Problem, error) {
	former := formerParents(d)
	for _, of := range former {
		err := c.clearParents(ctx, of, d.Name)
		if apierrors.IsForbidden(err) {
			return d, uncleared(err), nil
		}
		if err != nil {
			return d, nil, err
		}
	}
	isFormer := func(of v1alpha1.ResourceRule) bool { return slices.Contains(former, of) }
	d, err := c.updateRecord(ctx, d, slices.DeleteFunc(slices.Clone(d.Status.Finalized), isFormer))
	return d, nil, err
}

// clearAllParents removes the finalizer of a declaration from the parents of all types that may have it.
func (c *Controller) clearAllParents(ctx context.Context, d *parent.Declaration) error {
	for _, of := range append(formerParents(d), currentParents(d)...) {
		if err := c.clearParents(ctx, of, d.Name); err != nil {
			return err
		}
	}
	return nil
}

// clearParents removes the finalizer of a declaration from all parents of one type, in whichever version it is served.
func (c *Controller) clearParents(ctx context.Context, rule v1alpha1.ResourceRule, name string) error {
	of, err := parent.ResourceOf(rule)
	if err != nil {
		return nil // an invalid type never had parents
	}
	of, served, err := c.inServedVersion(ctx, of)
	if err != nil || !served {
		return err // a type that is not served has no objects any more
	}
	return c.removeFinalizers(ctx, of, name)
}

func uncleared(err error) *parent.Problem {
	return &parent.Problem{Reason: v1alpha1.ReasonForbidden, Message: "finalizers cannot be removed from parents: " + err.Error()}
}

func without(list []string, removed string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == removed })
}
