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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/objectcache/objectwriter"
)

// pageSize is how many parents are read at once where all of them have to be.
const pageSize = 500

// keepFinalizer puts our finalizer on a CompositeController before any parent gets one, and takes it away when none has one any more.
func (c *Controller) keepFinalizer(ctx context.Context, cc *v1alpha1.CompositeController, s *service) (*v1alpha1.CompositeController, error) {
	wanted := finalizes(cc)
	has := slices.Contains(cc.Finalizers, finalizerOfController)
	switch {
	case wanted && !has:
		return c.setFinalizers(ctx, cc, append(slices.Clone(cc.Finalizers), finalizerOfController))
	case has && !wanted && len(formerParents(cc)) == 0 && s.host != nil && s.host.of.Generation == cc.Generation && s.host.ready.Load() && !s.host.anyFinalizer():
		return c.setFinalizers(ctx, cc, without(cc.Finalizers, finalizerOfController))
	}
	return cc, nil
}

// setFinalizers writes nothing else: what a newer version of the kind has in its spec would be lost with the whole object.
func (c *Controller) setFinalizers(ctx context.Context, cc *v1alpha1.CompositeController, finalizers []string) (*v1alpha1.CompositeController, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": cc.UID, "resourceVersion": cc.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return nil, err
	}
	changed, err := c.Client.MetacontrollerV1alpha1().CompositeControllers().Patch(ctx, cc.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("changing the finalizers of CompositeController %s: %w", cc.Name, err)
	}
	return changed, nil
}

// anyFinalizer tells whether a parent has ours.
func (h *hosted) anyFinalizer() bool {
	return slices.ContainsFunc(h.parents.List("", nil), func(parent *objectcache.RawObject) bool { return hasFinalizer(parent, h.rules.finalizer) })
}

// retire takes the finalizers of a CompositeController that is being deleted from all parents, then lets it go. No hook is called:
// it may be gone as well.
func (c *Controller) retire(ctx context.Context, cc *v1alpha1.CompositeController, s *service) (time.Duration, error) {
	c.end(s)
	s.wrong = nil
	if !slices.Contains(cc.Finalizers, finalizerOfController) {
		return 0, nil
	}
	err := c.clearAll(ctx, cc)
	if apierrors.IsForbidden(err) {
		if _, err := c.publish(ctx, cc, s, health{wrong: uncleared(err)}); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	_, err = c.setFinalizers(ctx, cc, without(cc.Finalizers, finalizerOfController))
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return 0, err
}

// clearParents removes the finalizer of a CompositeController from all parents of a type. It reads them from the API server itself: a
// watch may lag behind what was written last.
func (c *Controller) clearParents(ctx context.Context, rule v1alpha1.ResourceRule, controllerName string) error {
	of, err := gvr(rule)
	if err != nil {
		return nil // it never had parents
	}
	of, served, err := c.inServedVersion(ctx, of)
	if err != nil || !served {
		return err // what is not served has no objects any more
	}
	finalizer := finalizerPrefix + controllerName
	options := metav1.ListOptions{Limit: pageSize}
	cleared := 0
	for {
		page, err := c.metadata.Resource(of).Namespace(c.Namespace).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil // the API server serves no such parents any more
		}
		if err != nil {
			return fmt.Errorf("listing %s, to take finalizers from them: %w", of.GroupResource(), err)
		}
		var having []objectwriter.Name
		for i := range page.Items {
			if parent := &page.Items[i]; slices.Contains(parent.Finalizers, finalizer) {
				having = append(having, objectwriter.Name{Resource: of, Namespace: parent.Namespace, Name: parent.Name})
			}
		}
		if err := c.clearPage(ctx, having, finalizer); err != nil {
			return err
		}
		cleared += len(having)
		if options.Continue = page.Continue; options.Continue == "" {
			klog.FromContext(ctx).Info("Took the finalizers from parents", "compositeController", controllerName, "resource", of.GroupResource(), "parents", cleared)
			return nil
		}
	}
}

func (c *Controller) clearPage(ctx context.Context, parents []objectwriter.Name, finalizer string) error {
	errs := make([]error, len(parents))
	controller.Parallel(len(parents), maxAtOnce, func(i int) { errs[i] = c.clearFinalizer(ctx, parents[i], finalizer) })
	return errors.Join(errs...)
}

func (c *Controller) clearFinalizer(ctx context.Context, name objectwriter.Name, finalizer string) error {
	parent, err := c.writer.Get(ctx, name)
	if err == nil && hasFinalizer(parent, finalizer) {
		_, err = c.putFinalizers(ctx, name, parent, without(parent.GetFinalizers(), finalizer))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("taking the finalizer from %s %s/%s: %w", name.Resource.GroupResource(), name.Namespace, name.Name, err)
	}
	return nil
}

// putFinalizers writes an object with other finalizers, if it is still as it was observed.
func (c *Controller) putFinalizers(ctx context.Context, name objectwriter.Name, observed object, finalizers []string) (*objectcache.RawObject, error) {
	tree, err := treeOf(observed)
	if err != nil {
		return nil, err
	}
	metadata := tree["metadata"].(map[string]any)
	if len(finalizers) == 0 {
		delete(metadata, "finalizers")
	} else {
		metadata["finalizers"] = finalizers
	}
	body, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return c.writer.Update(ctx, name, body)
}

func without(list []string, gone string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == gone })
}
