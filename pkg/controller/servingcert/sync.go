// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/certs"
	"millwright.dev/pkg/controller"
)

// longestWait bounds what a timer is trusted with: the clock may be set, and a machine sleep.
const longestWait = 24 * time.Hour

// target is an APIService that leads to our Service.
type target struct {
	certs.Target
	object *unstructured.Unstructured
}

// syncHandler goes once through the six steps of package certs.
func (c *Controller) syncHandler(ctx context.Context, _ types.NamespacedName) (time.Duration, error) {
	targets, err := c.targets()
	if err != nil {
		return 0, err
	}
	if len(targets) == 0 {
		expiration.Set(0)
		return 0, nil
	}
	// After the targets, and not from a cache: see package certs.
	kept, err := c.kubeClient.CoreV1().Secrets(secret.Namespace).Get(ctx, secret.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		kept = nil
	case err != nil:
		return 0, fmt.Errorf("reading Secret %s: %w", secret, err)
	}
	state, err := certs.Decode(kept)
	if err != nil {
		return 0, c.reportConflict(kept, err)
	}
	c.conflict = ""
	observed := certs.Observed{State: state, Names: names, Lifetimes: c.lifetimes, Now: time.Now()}
	for _, target := range targets {
		observed.Targets = append(observed.Targets, target.Target)
	}
	plan := certs.Decide(observed)
	publishExpiration(state)
	// Neither waits for the other: a certificate is made even where an APIService cannot be written.
	if err := errors.Join(c.inject(ctx, targets, plan.Inject, state.Bundle()), c.store(ctx, kept, observed, plan)); err != nil {
		return 0, err
	}
	if len(plan.Steps) > 0 {
		return controller.RecheckDelay, nil // what was stored is told by the watch, as a rule before that
	}
	return min(plan.RequeueAfter, longestWait), nil
}

// targets are sorted by name, so that all syncs do the same in the same order.
func (c *Controller) targets() (targets []target, err error) {
	for _, item := range c.apiServices.List() {
		object, ok := item.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("reading APIServices: the cache has a %T", item)
		}
		observed, err := certs.ObserveTarget(object, service)
		if err != nil {
			return nil, err
		}
		if observed.IsForService() {
			targets = append(targets, target{observed, object})
		}
	}
	slices.SortFunc(targets, func(a, b target) int { return strings.Compare(a.Name, b.Name) })
	return targets, nil
}

// inject gives the named targets the bundle.
func (c *Controller) inject(ctx context.Context, targets []target, named []string, bundle []byte) error {
	var errs []error
	for _, target := range targets {
		if !slices.Contains(named, target.Name) {
			continue
		}
		patch, err := target.Patch(bundle)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		_, err = c.dynamic.Resource(APIServices).Patch(ctx, target.object.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("giving %s the caBundle of Secret %s: %w", target.Name, secret, err))
			continue
		}
		klog.FromContext(ctx).Info("Injected the caBundle", "target", target.Name)
		c.recorder.Eventf(target.object, corev1.EventTypeNormal, reasonInjected, "Its caBundle is that of Secret %s", secret)
	}
	return errors.Join(errs...)
}

// store does the steps of the plan, all in one write of the Secret.
func (c *Controller) store(ctx context.Context, kept *corev1.Secret, observed certs.Observed, plan certs.Plan) error {
	if len(plan.Steps) == 0 {
		return nil
	}
	state, err := certs.Advance(observed.State, plan, certs.Issuing{Names: names, Lifetimes: c.lifetimes, Now: observed.Now, Random: rand.Reader})
	if err != nil {
		return err
	}
	wanted, err := certs.Store(kept, secret.Namespace, secret.Name, state)
	if err != nil || wanted == nil {
		return err
	}
	var written *corev1.Secret
	if kept == nil {
		written, err = c.kubeClient.CoreV1().Secrets(secret.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
	} else {
		written, err = c.kubeClient.CoreV1().Secrets(secret.Namespace).Update(ctx, wanted, metav1.UpdateOptions{})
	}
	if certs.LostRace(err) {
		klog.FromContext(ctx).V(2).Info("Another process was first, looking again", "secret", secret)
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", secret, err)
	}
	publishExpiration(state)
	c.reportSteps(ctx, written, state, plan.Steps)
	return nil
}
