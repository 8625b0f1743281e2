// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
)

// createSwitches creates one, then two, four and so on concurrently, until one fails: a quota, for instance, rejects a few requests and not a
// hundred.
func (r *reconciler) createSwitches(ctx context.Context, names []string) error {
	for batch := 1; len(names) > 0; batch *= 2 {
		batch = min(batch, len(names))
		errs := make([]error, batch)
		controller.Parallel(batch, maxConcurrentRequests, func(i int) { errs[i] = r.createSwitch(ctx, names[i]) })
		if err := join(errs); err != nil {
			return err
		}
		names = names[batch:]
	}
	return nil
}

// createSwitch creates one Switch. If its name is taken, the live Switch is read for its ownership. Afterwards the name counts as taken in any
// case: otherwise the sync would try the same name without end.
func (r *reconciler) createSwitch(ctx context.Context, name string) error {
	switches := r.client.UselessV1alpha1().Switches(r.key.Namespace)
	created, err := switches.Create(ctx, newSwitch(r.observed.machine, name), metav1.CreateOptions{})
	switch {
	case err == nil:
		switchChanges.WithLabelValues(changeCreated).Inc()
		r.wrote(created, func(done *progress) {
			done.created = append(done.created, name)
			r.observed.taken.Insert(name)
		})
		return nil
	case controller.StopIfTerminating(err) == controller.ErrStop:
		return controller.ErrStop
	case !apierrors.IsAlreadyExists(err):
		r.mu.Lock()
		defer r.mu.Unlock()
		if rejection := controller.RejectionOf(err); rejection != nil {
			r.observed.progress.rejection = rejection.Message
		}
		return fmt.Errorf("creating Switch %s: %w", klog.KRef(r.key.Namespace, name), err)
	}
	sw, err := switches.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errStale
	case err != nil:
		return fmt.Errorf("reading Switch %s, whose name is taken: %w", klog.KRef(r.key.Namespace, name), err)
	}
	if ownershipOf(r.observed.machine, sw) == controller.Owned {
		r.wrote(sw, func(*progress) { r.observed.taken.Insert(name) }) // this process or an earlier one has created it: the cache is stale
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observed.taken.Insert(name) // the next slot is tried
	return nil
}
