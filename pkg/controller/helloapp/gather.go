// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/controller"
)

// gather reads the caches. It returns nil if there is nothing to decide.
func (c *Controller) gather(key cache.ObjectName) (*observed, error) {
	app, err := c.appLister.HelloApps(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.memories.Forget(key)
		c.consistency.Clear(key)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o := &observed{app: app, memory: c.memories.Get(key, app.UID), now: time.Now()}
	if o.deployment, err = orNil(c.deploymentLister.Deployments(key.Namespace).Get(key.Name)); err != nil {
		return nil, err
	}
	if o.service, err = orNil(c.serviceLister.Services(key.Namespace).Get(key.Name)); err != nil {
		return nil, err
	}
	return o, nil
}

// Answer implements controller.Reconciler.
func (r *reconciler) Answer(ctx context.Context, ask controller.Ask) error {
	switch ask.(type) {
	case readApp:
		return r.reject(r.readApp(ctx, r.key, r.observed))
	case readDeployment:
		return r.reject(r.readDeployment(ctx, r.key, r.observed))
	case readService:
		return r.reject(r.readService(ctx, r.key, r.observed))
	default:
		return fmt.Errorf("unknown ask %T", ask)
	}
}

// readApp reads the HelloApp from the API server. The error is controller.ErrStop if it is gone.
func (c *Controller) readApp(ctx context.Context, key cache.ObjectName, o *observed) error {
	app, err := c.client.AppsV1().HelloApps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return controller.ErrStop
	}
	if err != nil {
		return fmt.Errorf("reading HelloApp %s: %w", key, err)
	}
	o.app, o.appLive = app, true
	return nil
}

// readDeployment reads the Deployment from the API server.
func (c *Controller) readDeployment(ctx context.Context, key cache.ObjectName, o *observed) error {
	deployment, err := orNil(c.kubeClient.AppsV1().Deployments(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("reading Deployment %s: %w", key, err)
	}
	o.deployment, o.deploymentLive = deployment, true
	if ownershipOf(o.app, deployment) == controller.Foreign {
		c.memories.Update(key, o.app.UID, func(memory *memory) { memory.foreignDeployment = time.Now() })
	}
	return nil
}

// readService reads the Service from the API server.
func (c *Controller) readService(ctx context.Context, key cache.ObjectName, o *observed) error {
	service, err := orNil(c.kubeClient.CoreV1().Services(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("reading Service %s: %w", key, err)
	}
	o.service, o.serviceLive = service, true
	if ownershipOf(o.app, service) == controller.Foreign {
		c.memories.Update(key, o.app.UID, func(memory *memory) { memory.foreignService = time.Now() })
	}
	return nil
}

// orNil returns nil for the error NotFound.
func orNil[T any](object *T, err error) (*T, error) {
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return object, nil
}
