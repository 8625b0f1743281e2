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
func (c *Controller) syncHandler(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	if !c.consistency.IsReady(key) {
		return controller.StaleCacheDelay, nil // the watch shows what was injected, as a rule before that
	}
	targets, wanted, err := c.targets()
	if err != nil {
		return 0, err
	}
	if !wanted {
		expiration.Set(0)
		return 0, nil
	}
	// After the targets, and not from a cache; the authorities last: see package certs.
	var kept certs.Secrets
	if kept.Serving, err = c.secret(ctx, c.serving); err != nil {
		return 0, err
	}
	if kept.Authority, err = c.secret(ctx, authority); err != nil {
		return 0, err
	}
	state, err := certs.Decode(kept)
	if err != nil {
		return 0, c.reportConflict(kept.Foreign(), err)
	}
	c.conflict = ""
	observed := certs.Observed{State: state, Names: c.names, Lifetimes: c.lifetimes, Now: time.Now()}
	for _, target := range targets {
		observed.Targets = append(observed.Targets, target.Target)
	}
	plan := certs.Decide(observed)
	publishExpiration(state)
	// Neither waits for the other: a certificate is made even where an APIService cannot be written.
	written, err := c.store(ctx, kept, observed, plan)
	if err := errors.Join(c.inject(ctx, targets, plan.Inject, state.Bundle()), err); err != nil {
		return 0, err
	}
	if written {
		return controller.StaleCacheDelay, nil // likewise
	}
	return min(plan.RequeueAfter, longestWait), nil
}

// secret reads one from the API server; nil is one that does not exist.
func (c *Controller) secret(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
	secret, err := c.kubeClient.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	default:
		return secret, nil
	}
}

// targets are the APIServices that lead to our Service, sorted by name, so that all syncs do the same in the same order. A certificate is
// wanted where there is one, or where the APIService of the farm still leads to another Service: before it is made to lead to ours, a
// server has to be there, and that waits for its certificate.
func (c *Controller) targets() (targets []target, wanted bool, err error) {
	for _, item := range c.apiServices.List() {
		object, ok := item.(*unstructured.Unstructured)
		if !ok {
			return nil, false, fmt.Errorf("reading APIServices: the cache has a %T", item)
		}
		observed, err := certs.ObserveTarget(object, c.service)
		if err != nil {
			return nil, false, err
		}
		if observed.IsForService() {
			targets = append(targets, target{observed, object})
		}
		wanted = wanted || observed.IsForService() || object.GetName() == apiServiceName
	}
	slices.SortFunc(targets, func(a, b target) int { return strings.Compare(a.Name, b.Name) })
	return targets, wanted, nil
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
		patched, err := c.dynamic.Resource(APIServices).Patch(ctx, target.object.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("giving %s the caBundle of Secret %s: %w", target.Name, authority, err))
			continue
		}
		c.consistency.WroteAt(c.service, c.apiServices, patched.GetResourceVersion())
		klog.FromContext(ctx).Info("Injected the caBundle", "target", target.Name)
		c.recorder.Eventf(target.object, corev1.EventTypeNormal, reasonInjected, "Its caBundle is that of Secret %s", c.serving)
	}
	return errors.Join(errs...)
}

// store does the steps of the plan and reports whether anything was written, or somebody else has written before.
func (c *Controller) store(ctx context.Context, kept certs.Secrets, observed certs.Observed, plan certs.Plan) (bool, error) {
	state, err := certs.Advance(observed.State, plan, certs.Issuing{Names: c.names, Lifetimes: c.lifetimes, Now: observed.Now, Random: rand.Reader})
	if err != nil {
		return false, err
	}
	wanted, err := certs.Store(kept, authority, c.serving, state)
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
			klog.FromContext(ctx).V(2).Info("Another process was first, looking again", "secret", klog.KObj(write.wanted))
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

// isOfServing reports whether a step is seen in the Secret of the serving certificate, and not in that of the authorities.
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
