// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package composite

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/composite/parent"
)

// health is what the status of a CompositeController reports.
type health struct {
	// problem is why it is not hosted, nil if it is.
	problem *parent.Problem
	// synced reports whether the caches of parents and children are filled.
	synced bool
	// overlap is why no parent is synced although the caches are filled, nil if some are.
	overlap *parent.Problem
	// hook is why the last sync of a parent failed, nil if it did not.
	hook *parent.Problem
	// finalizers is why parents of a former type still have our finalizer, nil if none has.
	finalizers *parent.Problem
}

// statusOf returns the status of a CompositeController.
func statusOf(cc *v1alpha1.CompositeController, h health, now time.Time) v1alpha1.CompositeControllerStatus {
	status := *cc.Status.DeepCopy()
	status.ObservedGeneration = cc.Generation
	status.Children = childrenColumn(cc.Spec.ChildResources)
	ready, why := metav1.ConditionFalse, h.problem
	switch {
	case h.problem != nil:
	case !h.synced:
		why = &parent.Problem{Reason: v1alpha1.ReasonStarting, Message: "the caches of parents and children are being filled"}
	case h.finalizers != nil:
		why = h.finalizers
	case h.overlap != nil:
		why = h.overlap
	case h.hook != nil:
		why = h.hook
	default:
		ready, why = metav1.ConditionTrue, &parent.Problem{Reason: v1alpha1.ReasonServing, Message: "parents are synced"}
	}
	controller.SetCondition(&status.Conditions, now, cc.Generation, v1alpha1.ConditionReady, ready, why.Reason, why.Message)
	return status
}

// childrenColumn returns the types of children for a column of kubectl.
func childrenColumn(children []v1alpha1.CompositeControllerChildResourceRule) string {
	var names []string
	for _, child := range children {
		names = append(names, child.Resource)
	}
	return controller.Truncate(strings.Join(names, ","), parent.MaxMessage)
}

// readyReasonOf returns the reason of the condition Ready, "" if there is none.
func readyReasonOf(cc *v1alpha1.CompositeController) string {
	for _, condition := range cc.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			return condition.Reason
		}
	}
	return ""
}
