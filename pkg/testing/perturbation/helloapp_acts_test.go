// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/testing/perturbation"
)

// States of a Deployment, in the format of stateOf.
const (
	one  = "nginx:1 x1"
	port = "nginx:1 x1 :80"
)

// theirs is a label on foreign objects.
const theirs = "theirs"

type (
	spec  = map[string]any
	until = func(context.Context, *perturbation.User) (bool, error)
)

// stateOf returns the image, the replicas and the ports of a Deployment.
func stateOf(deployment *appsv1.Deployment) string {
	container := deployment.Spec.Template.Spec.Containers[0]
	state := fmt.Sprintf("%s x%d", container.Image, ptr.Deref(deployment.Spec.Replicas, 1))
	for _, port := range container.Ports {
		state += fmt.Sprintf(" :%d", port.ContainerPort)
	}
	return state
}

func createApp(state string) perturbation.Act {
	return perturbation.Act{Name: "create the app", Do: makeApp(state), Until: runs(state)}
}

func createAppInConflict(state string, until until) perturbation.Act {
	return perturbation.Act{Name: "create the app", Do: makeApp(state), Until: until}
}

func createAppWithoutImage() perturbation.Act {
	return perturbation.Act{
		Name: "create the app without an image",
		Do: func(ctx context.Context, user *perturbation.User) error {
			return makeObject(ctx, user, apps, "HelloApp", nil, spec{"size": int64(1)})
		},
		Until: runsNothing,
	}
}

// makeApp creates the HelloApp that brings a Deployment to the state.
func makeApp(state string) func(context.Context, *perturbation.User) error {
	wanted := spec{"size": int64(1), "image": "nginx:1"}
	if state == port {
		wanted["port"] = int64(80)
	}
	return func(ctx context.Context, user *perturbation.User) error {
		return makeObject(ctx, user, apps, "HelloApp", nil, wanted)
	}
}

func editApp(act string, fields spec, state string) perturbation.Act {
	return perturbation.Act{Name: act, Do: patchObject(apps, map[string]any{"spec": fields}), Until: runs(state)}
}

func withoutImage() perturbation.Act {
	return perturbation.Act{Name: "no image", Do: patchObject(apps, map[string]any{"spec": spec{"image": nil}}), Until: runsNothing}
}

func driftAct(state string) perturbation.Act {
	return perturbation.Act{
		Name: "another client edits the Deployment",
		Do: func(ctx context.Context, user *perturbation.User) error {
			deployment, err := user.Get(ctx, deployments, name)
			if err != nil {
				return err
			}
			containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
			containers[0].(map[string]any)["image"] = "drift:1"
			edited := spec{"replicas": int64(3), "template": spec{"spec": spec{"containers": containers}}}
			return patchObject(deployments, map[string]any{"spec": edited})(ctx, user)
		},
		Until: runs(state),
	}
}

func deleteDeployment(state string) perturbation.Act {
	return perturbation.Act{Name: "another client deletes the Deployment", Do: deleteObject(deployments, metav1.DeletePropagationBackground), Until: runs(state)}
}

// orphanAndRecreate deletes the app, orphans its Deployment, and creates the app again.
func orphanAndRecreate(state string) perturbation.Act {
	return perturbation.Act{
		Name: "delete the app with --cascade=orphan, and create it again",
		Do: func(ctx context.Context, user *perturbation.User) error {
			if err := deleteObject(apps, metav1.DeletePropagationOrphan)(ctx, user); err != nil {
				return err
			}
			if err := awaitGone(apps, name)(ctx, user); err != nil {
				return err
			}
			return makeApp(state)(ctx, user)
		},
		Until: runs(state),
	}
}

func recreateApp(state string) perturbation.Act {
	return perturbation.Act{
		Name: "delete the app, and create it again immediately",
		Do: func(ctx context.Context, user *perturbation.User) error {
			if err := deleteObject(apps, metav1.DeletePropagationBackground)(ctx, user); err != nil {
				return err
			}
			return makeApp(state)(ctx, user)
		},
		Until: runs(state),
	}
}

// deploymentSpec returns the spec of a Deployment that the controller has not created.
func deploymentSpec(image string) spec {
	labels := map[string]any{"app": "mock-containers"}
	return spec{
		"replicas": int64(1), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": name, "image": image}}},
		},
	}
}

func foreignDeployment() perturbation.Act {
	return perturbation.Act{
		Name: "another client creates a Deployment of the name",
		Do: func(ctx context.Context, user *perturbation.User) error {
			return makeObject(ctx, user, deployments, "Deployment", map[string]any{"labels": map[string]any{theirs: "true"}}, deploymentSpec("theirs:1"))
		},
		Until: func(ctx context.Context, user *perturbation.User) (bool, error) {
			return rolledOut(ctx, user, "theirs:1 x1")
		},
	}
}

// foreignService creates a Service with another controller and with our label, so that the controller's informer has it.
func foreignService() perturbation.Act {
	return perturbation.Act{
		Name: "another client creates a Service of the name",
		Do: func(ctx context.Context, user *perturbation.User) error {
			configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
			if err := makeObject(ctx, user, configMaps, "ConfigMap", nil, nil); err != nil {
				return err
			}
			owner, err := user.Get(ctx, configMaps, name)
			if err != nil {
				return err
			}
			reference := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": string(owner.GetUID()), "controller": true}
			labels := map[string]any{theirs: "true", controller.LabelManagedBy: controller.ManagedBy}
			return makeObject(ctx, user, services, "Service", map[string]any{"labels": labels, "ownerReferences": []any{reference}},
				spec{"ports": []any{map[string]any{"port": int64(443)}}})
		},
		Until: func(context.Context, *perturbation.User) (bool, error) { return true, nil },
	}
}

// removeForeign deletes the foreign object. It fails if the object has been replaced.
func removeForeign(resource schema.GroupVersionResource, state string) perturbation.Act {
	return perturbation.Act{
		Name: "delete the foreign object",
		Do: func(ctx context.Context, user *perturbation.User) error {
			object, err := user.Get(ctx, resource, name)
			if err != nil {
				return err
			}
			if object.GetLabels()[theirs] == "" {
				return errors.New("the foreign object was replaced by another of its name")
			}
			return deleteObject(resource, metav1.DeletePropagationBackground)(ctx, user)
		},
		Until: runs(state),
	}
}

// oldDeployment creates the Deployment of an earlier operator for the app.
func oldDeployment() perturbation.Act {
	return perturbation.Act{
		Name: "the old operator creates a Deployment",
		Do: func(ctx context.Context, user *perturbation.User) error {
			app, err := user.Get(ctx, apps, name)
			if err != nil {
				return err
			}
			owner := map[string]any{
				"apiVersion": app.GetAPIVersion(), "kind": app.GetKind(), "name": name, "uid": string(app.GetUID()),
				"controller": true, "blockOwnerDeletion": true,
			}
			return makeObject(ctx, user, deployments, "Deployment", map[string]any{"ownerReferences": []any{owner}}, deploymentSpec("old:1"))
		},
		Until: func(ctx context.Context, user *perturbation.User) (bool, error) {
			return rolledOut(ctx, user, "old:1 x1")
		},
	}
}

// flickerSize changes the size and reverts it.
func flickerSize(ctx context.Context, user *perturbation.User) error {
	app, err := user.Get(ctx, apps, name)
	if err != nil {
		return err
	}
	size, _, _ := unstructured.NestedInt64(app.Object, "spec", "size")
	return errors.Join(
		patchObject(apps, map[string]any{"spec": spec{"size": size + 3}})(ctx, user),
		patchObject(apps, map[string]any{"spec": spec{"size": size}})(ctx, user),
	)
}

// flickerDeploymentLabel removes the label that the controller's informer selects by from the Deployment, and restores it.
func flickerDeploymentLabel(ctx context.Context, user *perturbation.User) error {
	label := func(value any) error {
		return patchObject(deployments, map[string]any{"metadata": map[string]any{"labels": map[string]any{controller.LabelManagedBy: value}}})(ctx, user)
	}
	return errors.Join(label(nil), label(controller.ManagedBy))
}

// makeObject creates an object with the name that all objects of these scenarios have.
func makeObject(ctx context.Context, user *perturbation.User, resource schema.GroupVersionResource, kind string, metadata map[string]any, fields spec) error {
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"] = name
	object := map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": metadata}
	if fields != nil {
		object["spec"] = fields
	}
	_, err := user.Client.Resource(resource).Namespace(user.Namespace).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	return err
}

func patchObject(resource schema.GroupVersionResource, fields map[string]any) func(context.Context, *perturbation.User) error {
	return func(ctx context.Context, user *perturbation.User) error {
		patch, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		_, err = user.Client.Resource(resource).Namespace(user.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if apierrors.IsNotFound(err) && resource != apps {
			return nil // there may be none during a flicker
		}
		return err
	}
}

func deleteObject(resource schema.GroupVersionResource, propagation metav1.DeletionPropagation) func(context.Context, *perturbation.User) error {
	return func(ctx context.Context, user *perturbation.User) error {
		return user.Client.Resource(resource).Namespace(user.Namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &propagation})
	}
}

// read returns the object with the name that all objects of these scenarios have.
func read[T any](ctx context.Context, user *perturbation.User, resource schema.GroupVersionResource) (*T, error) {
	object, err := user.Get(ctx, resource, name)
	if err != nil {
		return nil, err
	}
	return typed[T](object)
}

func typed[T any](object *unstructured.Unstructured) (*T, error) {
	converted := new(T)
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, converted)
	return converted, err
}
