// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/perturbation"
)

// completed reports whether the ActionSet is complete and its snapshot deleted.
func completed(ctx context.Context, user *perturbation.User) (bool, error) {
	return ended(ctx, user, v1alpha1.StateComplete, v1alpha1.ConditionComplete)
}

// completeOrUnread reports whether the run is complete, or waits because another process cannot read its snapshot.
func completeOrUnread(ctx context.Context, user *perturbation.User) (bool, error) {
	set, err := readSet(ctx, user)
	if err != nil {
		return false, err
	}
	progressing := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionProgressing)
	if set.Status.CompletionTime == nil && (progressing == nil || !strings.Contains(progressing.Message, "the run waits for its snapshot")) {
		return false, fmt.Errorf("got the status %+v, want it complete, or waiting for its snapshot", set.Status)
	}
	return true, nil
}

// failed reports whether the ActionSet has failed and its snapshot is deleted.
func failed(ctx context.Context, user *perturbation.User) (bool, error) {
	return ended(ctx, user, v1alpha1.StateFailed, v1alpha1.ConditionFailed)
}

func ended(ctx context.Context, user *perturbation.User, state v1alpha1.State, condition string) (bool, error) {
	set, err := readSet(ctx, user)
	if err != nil {
		return false, err
	}
	status := set.Status
	if status.CompletionTime == nil || status.State != state || !meta.IsStatusConditionTrue(status.Conditions, condition) {
		return false, fmt.Errorf("got the status %+v, want the state %s", status, state)
	}
	if len(set.Finalizers) > 0 {
		return false, fmt.Errorf("got the finalizers %q, want none", set.Finalizers)
	}
	return noSnapshot(ctx, user, set)
}

// runsPhase reports whether the phase runs.
func runsPhase(name string) until {
	return func(ctx context.Context, user *perturbation.User) (bool, error) {
		set, err := readSet(ctx, user)
		if err != nil {
			return false, err
		}
		if set.Status.Progress.RunningPhase != name {
			return false, fmt.Errorf("got the status %+v, want the running phase %s", set.Status, name)
		}
		return true, nil
	}
}

func setIsGone(ctx context.Context, user *perturbation.User) (bool, error) {
	_, err := user.Get(ctx, actionSets, name)
	switch {
	case apierrors.IsNotFound(err):
		return noSnapshot(ctx, user, nil)
	case err != nil:
		return false, err
	default:
		return false, fmt.Errorf("the ActionSet still exists")
	}
}

// noSnapshot reports whether no snapshot is left. A late write may create one after the ActionSet has ended: it is deleted with its owner.
func noSnapshot(ctx context.Context, user *perturbation.User, set *v1alpha1.ActionSet) (bool, error) {
	list, err := user.List(ctx, secrets)
	if err != nil {
		return false, err
	}
	for i := range list.Items {
		secret, err := typed[corev1.Secret](&list.Items[i])
		if err != nil {
			return false, err
		}
		if secret.Type != "millwright.dev/actionset-run" {
			continue
		}
		if set != nil && metav1.IsControlledBy(secret, set) {
			if order, err := resourceversion.CompareResourceVersion(secret.ResourceVersion, set.ResourceVersion); err == nil && order > 0 {
				continue
			}
		}
		return false, fmt.Errorf("Secret %s with a snapshot still exists", secret.Name)
	}
	return true, nil
}

// readSet reads the only ActionSet. The status of the result is not nil.
func readSet(ctx context.Context, user *perturbation.User) (*v1alpha1.ActionSet, error) {
	set, err := read[v1alpha1.ActionSet](ctx, user, actionSets)
	if err == nil && set.Status == nil {
		set.Status = &v1alpha1.ActionSetStatus{}
	}
	return set, err
}
