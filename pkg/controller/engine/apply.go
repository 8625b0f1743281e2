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
	"k8s.io/klog/v2"

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
	known := s.unstored.Load()
	if equality.Semantic.DeepEqual(status, d.Status) && (known == nil || !s.statusUnverified) {
		s.statusUnverified = false
		return 0, nil
	}
	if h.problem == nil && h.synced {
		if wait := hooksReportInterval - now.Sub(s.hooksReported); wait > 0 {
			return wait, nil
		}
		s.hooksReported = now
	}
	if known.isUseless(d) && !s.statusUnverified {
		s.unstored.Store(known.with(status)) // no write would store it
	} else {
		_, err = c.writeStatus(ctx, d, s, status)
		switch {
		case apierrors.IsNotFound(err):
			return 0, nil
		case err != nil:
			return 0, fmt.Errorf("writing the status of %s %s: %w", d.Kind, d.Name, err)
		}
		s.statusUnverified = false
		c.reportUnstored(ctx, d, s)
	}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if slices.Contains(warningReasons, ready.Reason) && ready.Reason != readyReasonOf(d) {
		c.Recorder.Event(d.Object, corev1.EventTypeWarning, ready.Reason, controller.Truncate(ready.Message, parent.MaxMessage))
	}
	return 0, nil
}

// writeStatus writes a status, and remembers what the API server has dropped of it.
func (c *Controller) writeStatus(ctx context.Context, d *parent.Declaration, s *state, status parent.Status) (*parent.Declaration, error) {
	written, err := c.Declarations.UpdateStatus(ctx, d, status)
	if err != nil {
		return nil, err
	}
	dropped := unstoredOf(written, status)
	s.unstored.Store(dropped)
	return dropped.over(written), nil
}

// reportUnstored reports once that a declaration is hosted without conditions. If it is not hosted for the same cause, that is reported.
func (c *Controller) reportUnstored(ctx context.Context, d *parent.Declaration, s *state) {
	switch {
	case !s.unstored.Load().noConditions():
		s.unstoredReported = false
	case !s.unstoredReported && !s.notStored.Load():
		s.unstoredReported = true
		message := unstoredMessage(d, c.Declarations.Resource())
		klog.FromContext(ctx).Error(nil, "The conditions cannot be written", "kind", d.Kind, "name", d.Name, "err", message)
		c.Recorder.Event(d.Object, corev1.EventTypeWarning, v1alpha1.ReasonStatusNotStored, message)
	}
}

// recordParents writes to the status which types of parents may have our finalizer, before any parent gets it. unrecorded is the problem if the API
// server does not store that: then no parent may get it.
func (c *Controller) recordParents(
	ctx context.Context, d *parent.Declaration, s *state,
) (_ *parent.Declaration, unrecorded *parent.Problem, _ error) {
	record := parentsRecord(d)
	needed := d.Finalizes() && len(record) > 0
	switch {
	case needed && s.recordUnverified:
		// It is written even if it seems to be stored: the definition has changed since.
	case needed && s.unrecorded.isOf(d):
		return d, unrecordedProblem(d, c.Declarations.Resource()), nil
	case slices.Equal(record, d.Status.Finalized):
		s.unrecorded, s.recordUnverified = nil, false
		return d, nil, nil
	}
	written, err := c.writeRecord(ctx, d, s, record)
	if err != nil {
		return nil, nil, err
	}
	before := s.unrecorded
	s.unrecorded, s.recordUnverified = nil, false
	if !needed || slices.Equal(record, written.Status.Finalized) {
		return written, nil, nil
	}
	s.unrecorded = newUnrecorded(written)
	problem := unrecordedProblem(d, c.Declarations.Resource())
	if !before.isOf(d) {
		klog.FromContext(ctx).Error(nil, "Not started: the record of finalizers is not stored", "kind", d.Kind, "name", d.Name, "err", problem.Message)
	}
	return written, problem, nil
}

func (c *Controller) updateRecord(
	ctx context.Context, d *parent.Declaration, s *state, record []v1alpha1.ResourceRule,
) (*parent.Declaration, error) {
	if slices.Equal(record, d.Status.Finalized) {
		return d, nil
	}
	return c.writeRecord(ctx, d, s, record)
}

func (c *Controller) writeRecord(
	ctx context.Context, d *parent.Declaration, s *state, record []v1alpha1.ResourceRule,
) (*parent.Declaration, error) {
	status := d.Status
	status.Finalized = record
	written, err := c.writeStatus(ctx, d, s, status)
	if err != nil {
		return nil, fmt.Errorf("recording the types of the parents in the status of %s %s: %w", d.Kind, d.Name, err)
	}
	return written, nil
}

// patchFinalizers writes the finalizers of a declaration.
func (c *Controller) patchFinalizers(
	ctx context.Context, d *parent.Declaration, s *state, finalizers []string,
) (*parent.Declaration, error) {
	changed, err := c.Declarations.PatchFinalizers(ctx, d, finalizers)
	if err != nil {
		return nil, fmt.Errorf("changing the finalizers of %s %s: %w", d.Kind, d.Name, err)
	}
	return s.unstored.Load().over(changed), nil
}
