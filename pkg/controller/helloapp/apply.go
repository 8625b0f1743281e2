// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

// reconciler is one sync of one HelloApp.
type reconciler struct {
	*Controller
	key      cache.ObjectName
	observed *observed
	// rejected is the error with which the API server has rejected a request. The status shows it.
	rejected error
	// isMirroring reports whether the current plan writes the status.
	isMirroring bool
}

// Decide implements controller.Reconciler.
func (r *reconciler) Decide() controller.Plan {
	o := r.observed
	if o.isBroughtUp {
		o.now, o.memory, r.isMirroring = time.Now(), r.memories.Get(r.key, o.app.UID), true
	}
	p := decide(*o)
	o.isBroughtUp = o.isBroughtUp || p.Again
	return p
}

// Apply implements controller.Reconciler.
func (r *reconciler) Apply(ctx context.Context, step controller.Step) error {
	err := r.applyStep(ctx, r.key, r.observed, step)
	switch {
	case r.isMirroring:
		return err
	case errors.Is(err, controller.ErrDecideAgain):
		r.observed.isBroughtUp = false
		return err
	default:
		return r.reject(err)
	}
}

// reject continues with the status if the API server has rejected a request for the Deployment or the Service.
func (r *reconciler) reject(err error) error {
	rejection := controller.RejectionOf(err)
	if rejection == nil {
		return err
	}
	r.observed.rejection, r.observed.isBroughtUp, r.rejected = rejection, true, err
	if rejection.IsInvalid() {
		r.rejected = controller.Invalid(err)
	}
	return controller.ErrDecideAgain
}

func (c *Controller) applyStep(ctx context.Context, key cache.ObjectName, o *observed, s controller.Step) error {
	switch s := s.(type) {
	case decideAgain:
		return controller.ErrDecideAgain
	case applyDeployment:
		return c.applyDeployment(ctx, key, o, s)
	case applyService:
		return c.applyService(ctx, key, o, s)
	case deleteDeployment:
		err := c.kubeClient.AppsV1().Deployments(key.Namespace).Delete(ctx, key.Name, only(s.uid))
		o.deployment, o.deploymentLive = nil, true // if the sync decides again
		return c.deleted(key, o.app.UID, "Deployment", s.uid, err)
	case deleteService:
		err := c.kubeClient.CoreV1().Services(key.Namespace).Delete(ctx, key.Name, only(s.uid))
		return c.deleted(key, o.app.UID, "Service", s.uid, err)
	case writeStatus:
		return c.writeStatus(ctx, key, o, s.status)
	case controller.RecordEvent:
		if s.Reason == controller.ReasonResourceExists {
			conflictsMet.Inc()
		}
		c.record(o, s)
		return nil
	default:
		return fmt.Errorf("unknown step %T", s)
	}
}

// applyDeployment applies, and replaces what is observed by the answer. If the Deployment is not the one in the cache, it is read.
func (c *Controller) applyDeployment(ctx context.Context, key cache.ObjectName, o *observed, s applyDeployment) error {
	config := newDeployment(o.app, o.deployment)
	fence(config.ObjectMetaApplyConfiguration, s.uid, o.deployment)
	applied, err := c.kubeClient.AppsV1().Deployments(key.Namespace).Apply(ctx, config, applyOptions(s.uid))
	switch {
	case err != nil && isOther(err, s.uid) && !o.deploymentLive:
		return cmp.Or(c.readDeployment(ctx, key, o), controller.ErrDecideAgain)
	case err != nil:
		return notApplied("Deployment", key, err)
	}
	c.consistency.WroteAt(key, c.deploymentStore, applied.ResourceVersion)
	if o.deployment == nil || o.deployment.ResourceVersion != applied.ResourceVersion {
		applies.WithLabelValues("Deployment", resultOf(o.app, s.uid, o.deployment, s.events)).Inc()
		c.record(o, s.events...)
	}
	o.deployment = applied
	news := false
	c.memories.Update(key, o.app.UID, func(memory *memory) {
		memory.deployment, news = memory.deployment.of(o.app.Generation).applied(s.repair, time.Now())
	})
	if news {
		c.record(o, contestedEvent("Deployment", key.Name))
	}
	return nil
}

// applyService does the same for the Service.
func (c *Controller) applyService(ctx context.Context, key cache.ObjectName, o *observed, s applyService) error {
	config := newService(o.app)
	fence(config.ObjectMetaApplyConfiguration, s.uid, o.service)
	applied, err := c.kubeClient.CoreV1().Services(key.Namespace).Apply(ctx, config, applyOptions(s.uid))
	switch {
	case err != nil && isOther(err, s.uid) && !o.serviceLive:
		return cmp.Or(c.readService(ctx, key, o), controller.ErrDecideAgain)
	case err != nil:
		return notApplied("Service", key, err)
	}
	c.consistency.WroteAt(key, c.serviceStore, applied.ResourceVersion)
	if o.service == nil || o.service.ResourceVersion != applied.ResourceVersion {
		applies.WithLabelValues("Service", resultOf(o.app, s.uid, o.service, s.events)).Inc()
		c.record(o, s.events...)
	}
	o.service = applied
	news := false
	c.memories.Update(key, o.app.UID, func(memory *memory) {
		memory.service, news = memory.service.of(o.app.Generation).applied(s.repair, time.Now())
	})
	if news {
		c.record(o, contestedEvent("Service", key.Name))
	}
	return nil
}

// fence makes the apply valid only for the object of that UID in the observed version, so that it never creates an object; without a
// UID, it can only create one. The version prevents a delayed apply from rolling back a later one.
func fence(meta *metaapply.ObjectMetaApplyConfiguration, uid types.UID, observed metav1.Object) {
	if uid == "" {
		meta.WithResourceVersion(controller.EmptyStoreVersion)
	} else {
		meta.WithUID(uid).WithResourceVersion(observed.GetResourceVersion())
	}
}

// applyOptions force the apply of an object that is ours, so that it takes over fields that other clients have changed.
func applyOptions(uid types.UID) metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: FieldManager, Force: uid != ""}
}

// isOther reports whether the apply was rejected because the object may not be the one in the cache: it exists although the cache has
// none, or got another controller.
func isOther(err error, uid types.UID) bool {
	return uid == "" && apierrors.IsConflict(err) || uid != "" && apierrors.IsInvalid(err)
}

func notApplied(what string, key cache.ObjectName, err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return controller.ErrStop
	}
	return fmt.Errorf("applying %s %s: %w", what, key, err)
}

// only the object of that UID.
func only(uid types.UID) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(uid)}}
}

// deleted records a deletion, so that it is not repeated before the watch shows it.
func (c *Controller) deleted(key cache.ObjectName, app types.UID, what string, uid types.UID, err error) error {
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s: %w", what, key, err)
	}
	c.memories.Update(key, app, func(memory *memory) { memory.deleting = [2]types.UID{uid, memory.deleting[0]} })
	return nil
}

// writeStatus writes the status with the resourceVersion that was decided from as precondition.
func (c *Controller) writeStatus(ctx context.Context, key cache.ObjectName, o *observed, status v1.HelloAppStatus) error {
	app := o.app.DeepCopy()
	app.Status = status
	updated, err := c.client.AppsV1().HelloApps(key.Namespace).UpdateStatus(ctx, app, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of HelloApp %s: %w", key, err)
	}
	c.consistency.WroteAt(key, c.appStore, updated.ResourceVersion)
	c.memories.Update(key, o.app.UID, func(memory *memory) { memory.mirrored = time.Now() })
	return nil
}

func (c *Controller) record(o *observed, events ...controller.RecordEvent) {
	for _, event := range events {
		c.recorder.Event(o.app, event.Type, event.Reason, event.Message)
	}
}
