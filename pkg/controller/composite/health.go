// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
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
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("writing the status of CompositeController %s: %w", cc.Name, err)
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
