// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

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
)

// obstacle is why parents or children are not watched, nil if they are or soon will be.
func (h *hosted) obstacle() *problem {
	for i, handle := range h.handles() {
		err := handle.Problem()
		if err == nil {
			continue
		}
		of, missing := h.rules.parent, v1alpha1.ReasonParentNotServed
		if i < len(h.rules.children) {
			of, missing = h.rules.children[i].resource, v1alpha1.ReasonChildNotServed
		}
		switch {
		case apierrors.IsForbidden(err):
			return forbidden(of, "list", "watch")
		case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
			return &problem{missing, err.Error()}
		}
	}
	return nil
}

// warnedOf are the reasons of the condition Ready that have an event, too, when they come.
var warnedOf = []string{v1alpha1.ReasonParentsOverlap, v1alpha1.ReasonNeverSettles}

// publish writes the status if it has changed. Where it tells of hooks it does so only now and then: the rest has to wait.
func (c *Controller) publish(ctx context.Context, cc *v1alpha1.CompositeController, s *service, h health) (wait time.Duration, err error) {
	now := time.Now()
	status := controllerStatus(cc, h, metav1.NewTime(now).Rfc3339Copy().Time)
	if equality.Semantic.DeepEqual(status, cc.Status) {
		return 0, nil
	}
	if h.wrong == nil && h.synced {
		if wait := statusInterval - now.Sub(s.toldHooks); wait > 0 {
			return wait, nil
		}
		s.toldHooks = now
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
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); slices.Contains(warnedOf, ready.Reason) && ready.Reason != reasonOf(cc) {
		c.Recorder.Event(cc, corev1.EventTypeWarning, ready.Reason, controller.Truncate(ready.Message, maxMessage))
	}
	return 0, nil
}

// reasonOf is the reason of the condition Ready.
func reasonOf(cc *v1alpha1.CompositeController) string {
	for _, condition := range cc.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			return condition.Reason
		}
	}
	return ""
}
