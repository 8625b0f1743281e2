// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/testing/perturbation"
)

// completed and failed tell whether the ActionSet has ended so, and nothing else is left of its run.
func completed(ctx context.Context, user *perturbation.User) (bool, error) {
	return ended(ctx, user, v1alpha1.StateComplete, v1alpha1.ConditionComplete)
}

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
		return false, fmt.Errorf("the status is %+v", status)
	}
	if len(set.Finalizers) > 0 {
		return false, fmt.Errorf("the finalizers are %q", set.Finalizers)
	}
	return nothingIsFrozen(ctx, user, set)
}

// runsPhase tells whether a phase of the only action runs.
func runsPhase(name string) until {
	return func(ctx context.Context, user *perturbation.User) (bool, error) {
		set, err := readSet(ctx, user)
		if err != nil {
			return false, err
		}
		if set.Status.Progress.RunningPhase != name {
			return false, fmt.Errorf("the status is %+v", set.Status)
		}
		return true, nil
	}
}

func setIsGone(ctx context.Context, user *perturbation.User) (bool, error) {
	_, err := user.Get(ctx, actionSets, name)
	switch {
	case apierrors.IsNotFound(err):
		return nothingIsFrozen(ctx, user, nil)
	case err != nil:
		return false, err
	default:
		return false, fmt.Errorf("the ActionSet is there")
	}
}

// nothingIsFrozen tells whether no frozen run is left. One that came late, when its ActionSet had long ended, goes with that.
func nothingIsFrozen(ctx context.Context, user *perturbation.User, set *v1alpha1.ActionSet) (bool, error) {
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
		return false, fmt.Errorf("Secret %s with a frozen run is there", secret.Name)
	}
	return true, nil
}

// readSet reads the one ActionSet. It has a status, which may be empty.
func readSet(ctx context.Context, user *perturbation.User) (*v1alpha1.ActionSet, error) {
	set, err := read[v1alpha1.ActionSet](ctx, user, actionSets)
	if err == nil && set.Status == nil {
		set.Status = &v1alpha1.ActionSetStatus{}
	}
	return set, err
}
