// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
)

// createSwitches creates one, then two, four and so on at once, until one fails: what is refused (by a quota, say) is not
// refused a hundred times.
func (a *applier) createSwitches(ctx context.Context, names []string) error {
	for batch := 1; len(names) > 0; batch *= 2 {
		batch = min(batch, len(names))
		errs := make([]error, batch)
		controller.Parallel(batch, maxAtOnce, func(i int) { errs[i] = a.createSwitch(ctx, names[i]) })
		if err := joined(errs...); err != nil {
			return err
		}
		names = names[batch:]
	}
	return nil
}

// createSwitch creates one Switch. Where its name is taken, the live Switch tells by whom. In any case it is taken afterwards: were
// it tried again where the name of another slot is somebody's, there would be no end to it.
func (a *applier) createSwitch(ctx context.Context, name string) error {
	switches := a.client.UselessV1alpha1().Switches(a.key.Namespace)
	created, err := switches.Create(ctx, newSwitch(a.observed.machine, name), metav1.CreateOptions{})
	switch {
	case err == nil:
		switchChanges.WithLabelValues(changeCreated).Inc()
		a.wrote(created, func(done *outcome) {
			done.created = append(done.created, name)
			a.observed.taken.Insert(name)
		})
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errGoing
	case !apierrors.IsAlreadyExists(err):
		a.mu.Lock()
		defer a.mu.Unlock()
		if refusal := controller.RejectionOf(err); refusal != nil {
			a.observed.done.refusal = refusal.Message
		}
		return fmt.Errorf("creating Switch %s: %w", klog.KRef(a.key.Namespace, name), err)
	}
	sw, err := switches.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errLater
	case err != nil:
		return fmt.Errorf("reading Switch %s, whose name is taken: %w", klog.KRef(a.key.Namespace, name), err)
	}
	if metav1.IsControlledBy(sw, a.observed.machine) && sw.DeletionTimestamp == nil {
		a.wrote(sw, func(*outcome) { a.observed.taken.Insert(name) }) // by us, or by who led before us: the cache is behind
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.observed.taken.Insert(name) // the next slot is tried
	return nil
}
