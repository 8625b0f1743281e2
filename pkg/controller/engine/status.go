// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/engine/parent"
)

// health is what the status of a declaration reports.
type health struct {
	// problem is why it is not hosted, or why changes are not seen; nil if it is and they are.
	problem *parent.Problem
	// synced reports whether the caches of parents and children are filled.
	synced bool
	// overlap is why no parent is synced although the caches are filled, nil if some are.
	overlap *parent.Problem
	// failures are the parents whose last sync failed.
	failures parent.Failures
	// finalizers is why parents of a former type still have our finalizer, nil if none has.
	finalizers *parent.Problem
}

// statusOf returns the status of a declaration.
func statusOf(d *parent.Declaration, h health, now time.Time) parent.Status {
	status := d.Status
	status.Conditions = slices.Clone(status.Conditions)
	status.ObservedGeneration = d.Generation
	if d.Kind == parent.Decorator {
		status.Parents = column(d.ParentResources())
	}
	status.Children = column(d.ChildResources())
	ready, why := metav1.ConditionFalse, h.problem
	switch {
	case h.problem != nil:
	case !h.synced:
		why = &parent.Problem{Reason: v1alpha1.ReasonStarting, Message: fmt.Sprintf("the caches of %s and %s are being filled", d.Kind.Parents(), d.Kind.Children())}
	case h.finalizers != nil:
		why = h.finalizers
	case h.overlap != nil:
		why = h.overlap
	case h.failures.General:
		why = h.failures.Problem
	case h.failures.Problem != nil:
		ready, why = metav1.ConditionTrue, failing(d, h.failures)
	default:
		ready, why = metav1.ConditionTrue, &parent.Problem{Reason: v1alpha1.ReasonServing, Message: d.Kind.Parents() + " are synced"}
	}
	controller.SetCondition(&status.Conditions, now, d.Generation, v1alpha1.ConditionReady, ready, why.Reason, why.Message)
	return status
}

// failing returns the reason of a declaration of which some parents have a problem, and the others do not.
func failing(d *parent.Declaration, f parent.Failures) *parent.Problem {
	return &parent.Problem{Reason: v1alpha1.ReasonParentsFailing, Message: controller.Truncate(fmt.Sprintf("%d of %d %s have a problem, such as %s: %s: %s",
		f.Failing, f.Parents, d.Kind.Parents(), f.Parent, f.Problem.Reason, f.Problem.Message), parent.MaxMessage)}
}

// column returns types for a column of kubectl.
func column(types []schema.GroupVersionResource) string {
	var names []string
	for _, of := range types {
		names = append(names, of.Resource)
	}
	return controller.Truncate(strings.Join(names, ","), parent.MaxMessage)
}

// readyReasonOf returns the reason of the condition Ready, "" if there is none.
func readyReasonOf(d *parent.Declaration) string {
	for _, condition := range d.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			return condition.Reason
		}
	}
	return ""
}
