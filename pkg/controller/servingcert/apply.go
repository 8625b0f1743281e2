// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/certs"
)

// inject writes the bundle into the named targets.
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
		patched, err := c.dynamic.Resource(APIServices).Patch(ctx, target.object.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("writing the caBundle of Secret %s into %s: %w", c.authority, target.Name, err))
			continue
		}
		c.consistency.WroteAt(c.service, c.apiServices, patched.GetResourceVersion())
		klog.FromContext(ctx).Info("Injected the caBundle", "target", target.Name)
		c.recorder.Eventf(target.object, corev1.EventTypeNormal, reasonInjected, "Its caBundle is that of Secret %s", c.serving)
	}
	return errors.Join(errs...)
}

// store applies the steps of the plan and reports whether anything was written, by this process or by another one.
func (c *Controller) store(ctx context.Context, kept certs.Secrets, observed certs.Observed, plan certs.Plan) (bool, error) {
	state, err := certs.Advance(observed.State, plan, certs.Issuing{Names: c.names, Lifetimes: c.lifetimes, Now: observed.Now, Random: rand.Reader})
	if err != nil {
		return false, err
	}
	wanted, err := certs.Store(kept, c.authority, c.serving, state)
	if err != nil || wanted == (certs.Secrets{}) {
		return false, err
	}
	// The authority first: see package certs.
	for _, write := range []struct {
		wanted, kept *corev1.Secret
		steps        []certs.Step
	}{
		{wanted.Authority, kept.Authority, slices.DeleteFunc(slices.Clone(plan.Steps), isOfServing)},
		{wanted.Serving, kept.Serving, slices.DeleteFunc(slices.Clone(plan.Steps), func(step certs.Step) bool { return !isOfServing(step) })},
	} {
		if write.wanted == nil {
			continue
		}
		written, err := c.write(ctx, write.wanted, write.kept != nil)
		if certs.LostRace(err) {
			klog.FromContext(ctx).V(2).Info("Another process has written the Secret first, retrying", "secret", klog.KObj(write.wanted))
			return true, nil
		}
		if err != nil {
			return true, fmt.Errorf("writing Secret %s/%s: %w", write.wanted.Namespace, write.wanted.Name, err)
		}
		c.reportSteps(ctx, written, state, write.steps)
	}
	publishExpiration(state)
	return true, nil
}

// isOfServing reports whether a step changes the Secret of the serving certificate, and not that of the authorities.
func isOfServing(step certs.Step) bool {
	_, is := step.(certs.IssueServing)
	return is
}

func (c *Controller) write(ctx context.Context, secret *corev1.Secret, exists bool) (*corev1.Secret, error) {
	client := c.kubeClient.CoreV1().Secrets(secret.Namespace)
	if exists {
		return client.Update(ctx, secret, metav1.UpdateOptions{})
	}
	return client.Create(ctx, secret, metav1.CreateOptions{})
}
