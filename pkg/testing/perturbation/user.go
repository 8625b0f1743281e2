// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// RunLabel is on the objects of a run that have no namespace, with the namespace of the run as its value.
const RunLabel = "millwright.dev/perturbation"

// User acts in a scenario. It has full rights, and its requests are never disturbed.
type User struct {
	Config    *rest.Config
	Client    dynamic.Interface
	Namespace string

	clusterScoped []schema.GroupVersionResource
}

// RunName returns a name for a cluster-scoped object of the run, which no other run uses. It is short enough to be a part of other names.
func (u *User) RunName() string {
	const most = 36
	return "run-" + strings.TrimLeft(u.Namespace[max(0, len(u.Namespace)-most):], "-")
}

// Objects returns a client for the objects of a resource: those of the run's namespace, or all objects of a cluster-scoped resource.
func (u *User) Objects(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	if slices.Contains(u.clusterScoped, resource) {
		return u.Client.Resource(resource)
	}
	return u.Client.Resource(resource).Namespace(u.Namespace)
}

// Get reads an object of the run.
func (u *User) Get(ctx context.Context, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	return u.Objects(resource).Get(ctx, name, metav1.GetOptions{})
}

// List reads all objects of the run.
func (u *User) List(ctx context.Context, resource schema.GroupVersionResource) (*unstructured.UnstructuredList, error) {
	return u.Objects(resource).List(ctx, u.only(resource, metav1.ListOptions{}))
}

// only restricts the options to objects of the run.
func (u *User) only(resource schema.GroupVersionResource, options metav1.ListOptions) metav1.ListOptions {
	if slices.Contains(u.clusterScoped, resource) {
		options.LabelSelector = RunLabel + "=" + u.Namespace
	}
	return options
}

// tidyUp removes what would outlive the run: cluster-scoped objects, and finalizers of a controller that does not run any more.
func (u *User) tidyUp(ctx context.Context, resources []schema.GroupVersionResource) error {
	for _, resource := range resources {
		list, err := u.List(ctx, resource)
		if err != nil {
			return fmt.Errorf("listing %s after the run: %w", resource.Resource, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if len(object.GetFinalizers()) > 0 {
				_, err = u.Objects(resource).Patch(ctx, object.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			}
			if err == nil && object.GetNamespace() == "" {
				err = u.Objects(resource).Delete(ctx, object.GetName(), metav1.DeleteOptions{})
			}
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("removing %s %s after the run: %w", resource.Resource, object.GetName(), err)
			}
		}
	}
	return nil
}
