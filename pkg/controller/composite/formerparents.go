// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
)

// The status of a CompositeController records on which parents its finalizer may be: before the first one gets it, so that whichever process
// finds spec.parentResource edited knows the type of the parents before, and removes the finalizer from them.

// finalizes reports whether parents get our finalizer.
func finalizes(cc *v1alpha1.CompositeController) bool {
	return cc.Spec.Hooks != nil && enabled(cc.Spec.Hooks.Finalize)
}

// parentsRecord is what the status has to record before parents are served. A type whose version has changed is the same type.
func parentsRecord(cc *v1alpha1.CompositeController) []v1alpha1.ResourceRule {
	record := cc.Status.FinalizedParents
	current := cc.Spec.ParentResource.ResourceRule
	_, err := gvr(current)
	switch {
	case err != nil || slices.Contains(record, current) && finalizes(cc):
		return record
	case finalizes(cc):
		return append(formerParents(cc), current)
	case slices.Contains(cc.Finalizers, finalizerOfController):
		return record // parents are about to lose it
	default:
		return formerParents(cc)
	}
}

// formerParents are the recorded types that the parents are of no more.
func formerParents(cc *v1alpha1.CompositeController) []v1alpha1.ResourceRule {
	current, err := gvr(cc.Spec.ParentResource.ResourceRule)
	return slices.DeleteFunc(slices.Clone(cc.Status.FinalizedParents), func(recorded v1alpha1.ResourceRule) bool {
		of, invalid := gvr(recorded)
		return err != nil || invalid != nil || of.GroupResource() == current.GroupResource()
	})
}

// recordParents writes the record before any parent gets our finalizer.
func (c *Controller) recordParents(ctx context.Context, cc *v1alpha1.CompositeController) (*v1alpha1.CompositeController, error) {
	return c.setRecord(ctx, cc, parentsRecord(cc))
}

func (c *Controller) setRecord(ctx context.Context, cc *v1alpha1.CompositeController, record []v1alpha1.ResourceRule) (*v1alpha1.CompositeController, error) {
	if slices.Equal(record, cc.Status.FinalizedParents) {
		return cc, nil
	}
	changed := cc.DeepCopy()
	changed.Status.FinalizedParents = record
	written, err := c.Client.MetacontrollerV1alpha1().CompositeControllers().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("recording the type of the parents in the status of CompositeController %s: %w", cc.Name, err)
	}
	return written, nil
}

// clearFormer removes our finalizer from parents of the types before, once those of now are served: until then the edit may be a slip. What
// keeps it from that is returned as a problem.
func (c *Controller) clearFormer(ctx context.Context, cc *v1alpha1.CompositeController) (*v1alpha1.CompositeController, *problem, error) {
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
	cc, err := c.setRecord(ctx, cc, slices.DeleteFunc(slices.Clone(cc.Status.FinalizedParents), func(of v1alpha1.ResourceRule) bool { return slices.Contains(former, of) }))
	return cc, nil, err
}

func uncleared(err error) *problem {
	return &problem{v1alpha1.ReasonForbidden, "finalizers cannot be removed from parents: " + err.Error()}
}

// clearAll removes our finalizer from the parents of all types that may have it.
func (c *Controller) clearAll(ctx context.Context, cc *v1alpha1.CompositeController) error {
	for _, of := range append(formerParents(cc), cc.Spec.ParentResource.ResourceRule) {
		if err := c.clearParents(ctx, of, cc.Name); err != nil {
			return err
		}
	}
	return nil
}

// inServedVersion is a resource in the version in which it is served: the given one, or another one of its group. It returns false
// where the API server does not serve it.
func (c *Controller) inServedVersion(ctx context.Context, of schema.GroupVersionResource) (schema.GroupVersionResource, bool, error) {
	candidates := []schema.GroupVersionResource{of}
	groups, err := c.KubeClient.Discovery().ServerGroupsWithContext(ctx)
	if err != nil {
		return of, false, fmt.Errorf("asking the API server in which versions it serves %s: %w", of.GroupResource(), err)
	}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			if group.Name == of.Group && version.Version != of.Version {
				candidates = append(candidates, of.GroupResource().WithVersion(version.Version))
			}
		}
	}
	served, err := c.lookUp(ctx, candidates)
	if err != nil {
		return of, false, err
	}
	for _, candidate := range candidates {
		if _, found := served[candidate]; found {
			return candidate, true, nil
		}
	}
	return of, false, nil
}
