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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/testing/perturbation"
)

// The ends of the acts: all that is there is what a user has asked for, and nothing is on its way.

// runs tells whether the app is Ready in a Deployment of that state, with a Service for its port, and nothing is left of others.
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
			return false, errors.New("the Deployment is not the app's")
		}
		if err := mirrors(app, deployment); err != nil {
			return false, err
		}
		return serviceIsRight(ctx, user, app)
	}
}

// rolledOut tells whether the Deployment is in that state, its rollout is over, and no Pod or ReplicaSet is left of others.
func rolledOut(ctx context.Context, user *perturbation.User, state string) (bool, error) {
	deployment, err := read[appsv1.Deployment](ctx, user, deployments)
	if err != nil {
		return false, err
	}
	counts, size := deployment.Status, ptr.Deref(deployment.Spec.Replicas, 1)
	if got := stateOf(deployment); got != state {
		return false, fmt.Errorf("the Deployment is in the state %s", got)
	}
	if counts.ObservedGeneration != deployment.Generation || counts.Replicas != size || counts.UpdatedReplicas != size || counts.AvailableReplicas != size {
		return false, fmt.Errorf("the Deployment is of generation %d, and has come to %+v", deployment.Generation, counts)
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
	for i := range replicaSets.Items {
		if !metav1.IsControlledBy(&replicaSets.Items[i], deployment) {
			return false, fmt.Errorf("ReplicaSet %s is left", replicaSets.Items[i].GetName())
		}
	}
	pods, err := user.Client.Resource(pods).Namespace(user.Namespace).List(ctx, metav1.ListOptions{})
	if err == nil && len(pods.Items) != int(size) {
		err = fmt.Errorf("there are %d Pods", len(pods.Items))
	}
	return err == nil, err
}

// mirrors tells what the status does not show of the Deployment as it is.
func mirrors(app *v1.HelloApp, deployment *appsv1.Deployment) error {
	for _, condition := range deployment.Status.Conditions {
		mirrored := meta.FindStatusCondition(app.Status.Conditions, string(condition.Type))
		if mirrored == nil || mirrored.Reason != condition.Reason || mirrored.Message != condition.Message {
			return fmt.Errorf("the Deployment's condition is %+v, and the app's %+v", condition, mirrored)
		}
	}
	if from, to := deployment.Status, app.Status; from.Replicas != to.Replicas || from.ReadyReplicas != to.ReadyReplicas || from.UpdatedReplicas != to.UpdatedReplicas {
		return fmt.Errorf("the Deployment's status is %+v, and the app's %+v", from, to)
	}
	return nil
}

// serviceIsRight tells whether there is a Service if and only if the app has a port. One of somebody is no part of that.
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
		return false, fmt.Errorf("there is a Service of %v with the ports %v", service.OwnerReferences, service.Spec.Ports)
	}
	return true, nil
}

// runsNothing tells whether the app says that it has no image, and nothing is left of it.
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

// appInConflict tells whether the app says that the Deployment is not its own.
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

// serviceInConflict tells whether the app runs, and says that the Service is not its own.
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

// appIs tells what else the condition says, or that it speaks of an earlier spec.
func appIs(app *v1.HelloApp, conditionType string, status metav1.ConditionStatus, reason string) error {
	condition := meta.FindStatusCondition(app.Status.Conditions, conditionType)
	if app.Status.ObservedGeneration != app.Generation || condition == nil || condition.Status != status || condition.Reason != reason {
		return fmt.Errorf("generation %d: the status is %+v", app.Generation, app.Status)
	}
	return nil
}
