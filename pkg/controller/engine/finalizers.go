// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/engine/parent"
)

// syncFinalizer adds our finalizer to a declaration before any parent gets one of it, and removes ours when no parent has one any more.
func (c *Controller) syncFinalizer(ctx context.Context, d *parent.Declaration, s *state) (*parent.Declaration, error) {
	wanted, has := d.Finalizes(), hasFinalizer(d)
	switch {
	case wanted && !has:
		return c.patchFinalizers(ctx, d, s, append(slices.Clone(d.Finalizers), finalizerOf(d.Kind)))
	case has && !wanted && len(formerParents(d)) == 0 && s.hosted.isOf(d) && s.hosted.Started() && !s.hosted.AnyFinalizer():
		return c.patchFinalizers(ctx, d, s, without(d.Finalizers, finalizerOf(d.Kind)))
	}
	return d, nil
}

// syncDeleted removes the finalizers of a declaration that is being deleted from all parents, then ours from it. No hook is called: it
// may be deleted as well.
func (c *Controller) syncDeleted(ctx context.Context, d *parent.Declaration, s *state) (time.Duration, error) {
	c.stop(s)
	s.setProblem(nil)
	if !hasFinalizer(d) {
		return 0, nil
	}
	if err := c.clearAllParents(ctx, d); err != nil {
		if problem := uncleared(err); problem != nil {
			_, failed := c.updateStatus(ctx, d, s, health{problem: problem})
			err = errors.Join(err, failed)
		}
		return 0, err
	}
	_, err := c.patchFinalizers(ctx, d, s, without(d.Finalizers, finalizerOf(d.Kind)))
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return 0, err
}

// clearFormerParents removes the finalizer of a declaration from parents of former types, once the current ones are synced: until then the edit may be a
// mistake. A type stays recorded while the finalizer cannot be removed from all of its parents: remaining is why.
func (c *Controller) clearFormerParents(ctx context.Context, d *parent.Declaration, s *state) (_ *parent.Declaration, remaining, err error) {
	var cleared []v1alpha1.ResourceRule
	var errs []error
	for _, of := range formerParents(d) {
		if err := c.clearParents(ctx, of, d.Name); err != nil {
			errs = append(errs, err)
		} else {
			cleared = append(cleared, of)
		}
	}
	isCleared := func(of v1alpha1.ResourceRule) bool { return slices.Contains(cleared, of) }
	updated, err := c.updateRecord(ctx, d, s, slices.DeleteFunc(slices.Clone(d.Status.Finalized), isCleared))
	if err != nil {
		return nil, nil, err
	}
	return updated, errors.Join(errs...), nil
}

// clearAllParents removes the finalizer of a declaration from the parents of all types that may have it, whatever its spec has become.
func (c *Controller) clearAllParents(ctx context.Context, d *parent.Declaration) error {
	var errs []error
	for _, of := range append(recordedOthers(d), currentParents(d)...) {
		errs = append(errs, c.clearParents(ctx, of, d.Name))
	}
	return errors.Join(errs...)
}

// notServedError is the error of parents that exist, and cannot be written because their type is not served.
type notServedError struct{ of schema.GroupResource }

func (e *notServedError) Error() string {
	return fmt.Sprintf("the API server does not serve %s, although its CustomResourceDefinition exists: serve a version of it, or delete the definition", e.of)
}

// clearParents removes the finalizer of a declaration from all parents of one type, in whichever version it is served.
func (c *Controller) clearParents(ctx context.Context, rule v1alpha1.ResourceRule, name string) error {
	of, err := parent.ResourceOf(rule)
	if err != nil {
		return nil // an invalid type never had parents
	}
	served, found, err := c.inServedVersion(ctx, of)
	if err != nil {
		return err
	}
	if found {
		// Another API server than the one that was asked may not serve the type yet, or not any more.
		if err := c.removeFinalizers(ctx, served, name); !apierrors.IsNotFound(err) {
			return err
		}
	}
	defined, err := c.isDefined(of.GroupResource())
	switch {
	case err != nil:
		return err
	case defined:
		return &notServedError{of.GroupResource()}
	case found:
		return c.checkGone(ctx, of)
	}
	return nil // without a definition there are no objects any more
}

// checkGone returns nil if the API server does not serve a type any more that it did not find although it served it. The objects of an aggregated API have
// no definition, and exist while it does not work.
func (c *Controller) checkGone(ctx context.Context, of schema.GroupVersionResource) error {
	served, found, err := c.inServedVersion(ctx, of)
	if err == nil && found {
		err = fmt.Errorf("the API server serves %s, and does not find them: look at the APIService %s.%s", of.GroupResource(), served.Version, served.Group)
	}
	return err
}

// uncleared returns the problem of a finalizer that remains on parents; nil if it is removed soon.
func uncleared(err error) *parent.Problem {
	if err == nil || controller.IsRetriedQuietly(err) {
		return nil
	}
	reason := v1alpha1.ReasonFinalizersRemain
	if apierrors.IsForbidden(err) {
		reason = v1alpha1.ReasonForbidden
	}
	return &parent.Problem{Reason: reason, Message: controller.Truncate("finalizers cannot be removed from parents: "+err.Error(), parent.MaxMessage)}
}

// isRefused reports whether nothing but a change of rights or definitions helps.
func isRefused(err error) bool {
	_, notServed := errors.AsType[*notServedError](err)
	return notServed || apierrors.IsForbidden(err)
}

func without(list []string, removed string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == removed })
}
