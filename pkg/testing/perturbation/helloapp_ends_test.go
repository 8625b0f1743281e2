// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/testing/perturbation"
)

// The ends of the acts: the objects are exactly what the user has asked for, and no change is in progress.

// runs reports whether the app is Ready with a Deployment in that state and a Service for its port, and without leftovers of others.
func runs(state string) until {
	return func(ctx context.Context, user *perturbation.User) (bool, error) {
		app, err := read[v1.HelloApp](ctx, user, apps)
		if err != nil {
			return false, err
		}
		if err := appIs(app, v1.ConditionReady, metav1.ConditionTrue, v1.ReasonAvailable); err != nil {
			return false, err
		}
		if reached, err := rolledOut(ctx, user, state); !reached {
			return false, err
		}
		deployment, err := read[appsv1.Deployment](ctx, user, deployments)
		if err != nil {
			return false, err
		}
		if !metav1.IsControlledBy(deployment, app) {
			return false, errors.New("the app does not own the Deployment")
		}
		if err := mirrors(app, deployment); err != nil {
			return false, err
		}
		return serviceIsRight(ctx, user, app)
	}
}

// rolledOut reports whether the Deployment is in that state, its rollout is complete, and there is no Pod or ReplicaSet of another.
func rolledOut(ctx context.Context, user *perturbation.User, state string) (bool, error) {
	deployment, err := read[appsv1.Deployment](ctx, user, deployments)
	if err != nil {
		return false, err
	}
	counts, size := deployment.Status, ptr.Deref(deployment.Spec.Replicas, 1)
	if got := stateOf(deployment); got != state {
		return false, fmt.Errorf("got the Deployment's state %s, want %s", got, state)
	}
	if counts.ObservedGeneration != deployment.Generation || counts.Replicas != size || counts.UpdatedReplicas != size || counts.AvailableReplicas != size {
		return false, fmt.Errorf("the rollout of the Deployment's generation %d is not complete: %+v", deployment.Generation, counts)
	}
	for _, condition := range counts.Conditions {
		if condition.Type == appsv1.DeploymentProgressing && condition.Reason != "NewReplicaSetAvailable" {
			return false, fmt.Errorf("the Deployment is %s", condition.Reason)
		}
	}
	replicaSets, err := user.Client.Resource(appsv1.SchemeGroupVersion.WithResource("replicasets")).Namespace(user.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	// The counts of the Deployment are those that its controller last read of ReplicaSets.
	scaledTo := int64(0)
	for i := range replicaSets.Items {
		replicaSet := &replicaSets.Items[i]
		if !metav1.IsControlledBy(replicaSet, deployment) {
			return false, fmt.Errorf("ReplicaSet %s is left", replicaSet.GetName())
		}
		replicas, _, _ := unstructured.NestedInt64(replicaSet.Object, "spec", "replicas")
		scaledTo += replicas
		if observed, _, _ := unstructured.NestedInt64(replicaSet.Object, "status", "observedGeneration"); observed != replicaSet.GetGeneration() {
			return false, fmt.Errorf("generation %d of ReplicaSet %s is not observed", replicaSet.GetGeneration(), replicaSet.GetName())
		}
	}
	if scaledTo != int64(size) {
		return false, fmt.Errorf("the ReplicaSets are scaled to %d together, want %d", scaledTo, size)
	}
	pods, err := user.Client.Resource(pods).Namespace(user.Namespace).List(ctx, metav1.ListOptions{})
	if err == nil && len(pods.Items) != int(size) {
		err = fmt.Errorf("got %d Pods, want %d", len(pods.Items), size)
	}
	return err == nil, err
}

// mirrors returns an error if the app's status differs from that of the Deployment.
func mirrors(app *v1.HelloApp, deployment *appsv1.Deployment) error {
	for _, condition := range deployment.Status.Conditions {
		mirrored := meta.FindStatusCondition(app.Status.Conditions, string(condition.Type))
		if mirrored == nil || mirrored.Reason != condition.Reason || mirrored.Message != condition.Message {
			return fmt.Errorf("got the app's condition %+v, want the Deployment's %+v", mirrored, condition)
		}
	}
	want, got := deployment.Status, app.Status
	if got.Replicas != want.Replicas || got.ReadyReplicas != want.ReadyReplicas || got.UpdatedReplicas != want.UpdatedReplicas {
		return fmt.Errorf("got the app's status %+v, want the counts of the Deployment's %+v", got, want)
	}
	return nil
}

// serviceIsRight reports whether the app has a Service if and only if it has a port. A foreign Service counts as right.
func serviceIsRight(ctx context.Context, user *perturbation.User, app *v1.HelloApp) (bool, error) {
	service, err := read[corev1.Service](ctx, user, services)
	switch {
	case apierrors.IsNotFound(err) && app.Spec.Port == 0:
		return true, nil
	case err != nil:
		return false, err
	case service.Labels[theirs] != "":
		return true, nil
	case app.Spec.Port == 0 || !metav1.IsControlledBy(service, app) || service.Spec.Ports[0].Port != app.Spec.Port:
		return false, fmt.Errorf("got a Service of %v with the ports %v, want the port %d", service.OwnerReferences, service.Spec.Ports, app.Spec.Port)
	}
	return true, nil
}

// runsNothing reports whether the app has the reason for a missing image, and no children.
func runsNothing(ctx context.Context, user *perturbation.User) (bool, error) {
	app, err := read[v1.HelloApp](ctx, user, apps)
	if err != nil {
		return false, err
	}
	if err := appIs(app, v1.ConditionReady, metav1.ConditionFalse, v1.ReasonImageNotSet); err != nil {
		return false, err
	}
	for _, resource := range []schema.GroupVersionResource{deployments, appsv1.SchemeGroupVersion.WithResource("replicasets"), pods} {
		list, err := user.Client.Resource(resource).Namespace(user.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) > 0 {
			return false, errors.Join(fmt.Errorf("%d %s are left", len(list.Items), resource.Resource), err)
		}
	}
	return true, nil
}

// appInConflict reports whether the app has a conflict with a foreign Deployment.
func appInConflict(ctx context.Context, user *perturbation.User) (bool, error) {
	app, err := read[v1.HelloApp](ctx, user, apps)
	if err != nil {
		return false, err
	}
	err = errors.Join(
		appIs(app, v1.ConditionReady, metav1.ConditionFalse, v1.ReasonConflict),
		appIs(app, v1.ConditionConflict, metav1.ConditionTrue, controller.ReasonResourceExists))
	return err == nil, err
}

// serviceInConflict reports whether the app runs, and has a conflict with a foreign Service.
func serviceInConflict(ctx context.Context, user *perturbation.User) (bool, error) {
	app, err := read[v1.HelloApp](ctx, user, apps)
	if err != nil {
		return false, err
	}
	if err := appIs(app, v1.ConditionConflict, metav1.ConditionTrue, controller.ReasonResourceExists); err != nil {
		return false, err
	}
	return runs(port)(ctx, user)
}

// appIs returns an error if the status is of an earlier generation, or if the condition is missing or different.
func appIs(app *v1.HelloApp, conditionType string, status metav1.ConditionStatus, reason string) error {
	condition := meta.FindStatusCondition(app.Status.Conditions, conditionType)
	if app.Status.ObservedGeneration != app.Generation || condition == nil || condition.Status != status || condition.Reason != reason {
		return fmt.Errorf("got the status %+v at generation %d, want %s=%s with reason %s", app.Status, app.Generation, conditionType, status, reason)
	}
	return nil
}
