// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/engine/parent"
)

// hooksReportInterval is the shortest interval of status writes that report on hooks, which may fail with a different message each time.
const hooksReportInterval = time.Second

// updateStatus writes the status if it has changed. A report on hooks has to wait if there was one within hooksReportInterval; then wait is
// positive, and nothing is written.
func (c *Controller) updateStatus(ctx context.Context, d *parent.Declaration, s *state, h health) (wait time.Duration, err error) {
	now := time.Now()
	status := statusOf(d, h, metav1.NewTime(now).Rfc3339Copy().Time)
	if equality.Semantic.DeepEqual(status, d.Status) {
		return 0, nil
	}
	if h.problem == nil && h.synced {
		if wait := hooksReportInterval - now.Sub(s.hooksReported); wait > 0 {
			return wait, nil
		}
		s.hooksReported = now
	}
	_, err = c.Declarations.UpdateStatus(ctx, d, status)
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("writing the status of %s %s: %w", d.Kind, d.Name, err)
	}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if slices.Contains(warningReasons, ready.Reason) && ready.Reason != readyReasonOf(d) {
		c.Recorder.Event(d.Object, corev1.EventTypeWarning, ready.Reason, controller.Truncate(ready.Message, parent.MaxMessage))
	}
	return 0, nil
}

// recordParents writes to the status which types of parents may have our finalizer, before any parent gets it.
func (c *Controller) recordParents(ctx context.Context, d *parent.Declaration) (*parent.Declaration, error) {
	return c.updateRecord(ctx, d, parentsRecord(d))
}

func (c *Controller) updateRecord(
	ctx context.Context, d *parent.Declaration, record []v1alpha1.ResourceRule,
) (*parent.Declaration, error) {
	if slices.Equal(record, d.Status.Finalized) {
		return d, nil
	}
	status := d.Status
	status.Finalized = record
	written, err := c.Declarations.UpdateStatus(ctx, d, status)
	if err != nil {
		return nil, fmt.Errorf("recording the types of the parents in the status of %s %s: %w", d.Kind, d.Name, err)
	}
	return written, nil
}

// patchFinalizers writes the finalizers of a declaration.
func (c *Controller) patchFinalizers(ctx context.Context, d *parent.Declaration, finalizers []string) (*parent.Declaration, error) {
	changed, err := c.Declarations.PatchFinalizers(ctx, d, finalizers)
	if err != nil {
		return nil, fmt.Errorf("changing the finalizers of %s %s: %w", d.Kind, d.Name, err)
	}
	return changed, nil
}
