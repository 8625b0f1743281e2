// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/composite/parent"
)

// hooksReportInterval is the shortest interval of status writes that report on hooks, which may fail with a different message each time.
const hooksReportInterval = time.Second

// updateStatus writes the status if it has changed. A report on hooks has to wait if there was one within hooksReportInterval; then wait is
// positive, and nothing is written.
func (c *Controller) updateStatus(ctx context.Context, cc *v1alpha1.CompositeController, s *state, h health) (wait time.Duration, err error) {
	now := time.Now()
	status := statusOf(cc, h, metav1.NewTime(now).Rfc3339Copy().Time)
	if equality.Semantic.DeepEqual(status, cc.Status) {
		return 0, nil
	}
	if h.problem == nil && h.synced {
		if wait := hooksReportInterval - now.Sub(s.hooksReported); wait > 0 {
			return wait, nil
		}
		s.hooksReported = now
	}
	changed := cc.DeepCopy()
	changed.Status = status
	_, err = c.Client.MetacontrollerV1alpha1().CompositeControllers().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("writing the status of CompositeController %s: %w", cc.Name, err)
	}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if slices.Contains(warningReasons, ready.Reason) && ready.Reason != readyReasonOf(cc) {
		c.Recorder.Event(cc, corev1.EventTypeWarning, ready.Reason, controller.Truncate(ready.Message, parent.MaxMessage))
	}
	return 0, nil
}

// recordParents writes to the status which types of parents may have our finalizer, before any parent gets it.
func (c *Controller) recordParents(ctx context.Context, cc *v1alpha1.CompositeController) (*v1alpha1.CompositeController, error) {
	return c.updateRecord(ctx, cc, parentsRecord(cc))
}

func (c *Controller) updateRecord(
	ctx context.Context, cc *v1alpha1.CompositeController, record []v1alpha1.ResourceRule,
) (*v1alpha1.CompositeController, error) {
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

// patchFinalizers writes nothing but the finalizers: an update of the whole object would drop the fields of newer versions of the kind.
func (c *Controller) patchFinalizers(ctx context.Context, cc *v1alpha1.CompositeController, finalizers []string) (*v1alpha1.CompositeController, error) {
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
