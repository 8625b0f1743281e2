// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

var (
	// ErrStop is the error of an answer or a step after which nothing is left to do, because the object or its namespace is deleted or being
	// deleted. It ends the sync without an error.
	ErrStop = errors.New("the object or its namespace is being deleted")
	// ErrDecideAgain is the error of a step that has found out, and recorded in what is observed, that the plan is outdated.
	ErrDecideAgain = errors.New("the plan is outdated")
)

// Reconciler is one sync of one object: what it observes, and its effects.
type Reconciler interface {
	// Decide returns the plan for what is observed. It has no effects.
	Decide() Plan
	// Answer adds the answer to what is observed.
	Answer(ctx context.Context, ask Ask) error
	// Apply carries out the step, and adds the outcome to what is observed.
	Apply(ctx context.Context, step Step) error
}

// Reconcile decides, answers what is asked and applies steps until a plan is applied that does not ask to decide again. It returns the
// earliest of the delays of all plans that were applied, and the error that has ended the sync.
func Reconcile(ctx context.Context, r Reconciler) (requeueAfter time.Duration, err error) {
	for again := true; again; {
		plan := r.Decide()
		if len(plan.Asks) > 0 {
			err = answer(ctx, r, plan.Asks)
		} else {
			again, err = plan.Again, apply(ctx, r, plan.Steps)
		}
		switch {
		case errors.Is(err, ErrStop):
			return 0, nil
		case errors.Is(err, ErrDecideAgain):
			again = true
		case err != nil:
			return 0, err
		case len(plan.Asks) == 0:
			requeueAfter = EarliestDelay(requeueAfter, plan.RequeueAfter)
		}
	}
	return requeueAfter, nil
}

func answer(ctx context.Context, r Reconciler, asks []Ask) error {
	for _, ask := range asks {
		klog.FromContext(ctx).V(4).Info("Answering", "ask", ask)
		if err := r.Answer(ctx, ask); err != nil {
			return err
		}
	}
	return nil
}

func apply(ctx context.Context, r Reconciler, steps []Step) error {
	for _, step := range steps {
		klog.FromContext(ctx).V(4).Info("Applying", "step", step)
		if err := r.Apply(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// StopIfTerminating returns ErrStop where the API server has refused to create an object because its namespace is being deleted, and
// otherwise the error itself.
func StopIfTerminating(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return ErrStop
	}
	return err
}
