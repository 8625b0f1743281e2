// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/phase"
)

const (
	// maxOwners is how many levels of owners are followed.
	maxOwners = 10
	// readsOfScale is what a read of a scale counts in addition, in reads of a small object: the API server reads the whole object, which may be large.
	readsOfScale = 8
)

// scaledOwner returns what is scaled instead of an object that a controller owns, because the controller would revert a change of the object: the
// highest of its owners that has a scale subresource; nil if none has. The owners of an owner that cannot be read are not followed.
func (s *ScaleWorkload) scaledOwner(ctx context.Context, object metav1.Object) (highest *target, _ error) {
	for range maxOwners {
		reference := metav1.GetControllerOfNoCopy(object)
		if reference == nil {
			break
		}
		group, err := schema.ParseGroupVersion(reference.APIVersion)
		if err != nil {
			break // the kind is invalid
		}
		kind, err := s.Mapper.ofOwner(ctx, group.WithKind(reference.Kind))
		if meta.IsNoMatchError(err) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("looking for the resource of kind %s, which owns %s: %w", reference.Kind, object.GetName(), err)
		}
		owner := kind.target(object.GetNamespace(), reference.Name)
		found, err := s.Dynamic.Resource(kind.GroupVersionResource).Namespace(owner.Namespace).Get(phase.OnlyMetadata(ctx), owner.Name, metav1.GetOptions{})
		err = s.Mapper.stillServed(kind.GroupVersionResource, err)
		switch {
		case apierrors.IsForbidden(err):
			if kind.scalable {
				highest = &owner
			}
			return highest, nil
		case apierrors.IsNotFound(err), err == nil && found.GetUID() != reference.UID:
			return highest, nil // the owner is gone and reverts nothing
		case err != nil:
			return nil, fmt.Errorf("reading %s, which owns %s: %w", owner, object.GetName(), err)
		}
		if kind.scalable {
			highest = &owner
		}
		object = found
	}
	return highest, nil
}

// scale is the scale subresource of an object.
type scale struct {
	target
	replicas, current int32
}

func (s *ScaleWorkload) getScale(ctx context.Context, t target) (found scale, _ error) {
	err := s.Mapper.inServedVersion(ctx, t, isScalable, func(t target) error {
		phase.AddReads(ctx, readsOfScale, 0)
		object, err := s.Dynamic.Resource(t.resource()).Namespace(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{}, "scale")
		found = scaleOf(t, object)
		return err
	})
	return found, scaleRefused(t, err)
}

// putScale sets the replicas, with the UID and the resourceVersion of the target as preconditions.
func (s *ScaleWorkload) putScale(ctx context.Context, t target, replicas int32) (written scale, _ error) {
	body := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale",
		"metadata": map[string]any{"name": t.Name, "namespace": t.Namespace, "uid": string(t.UID), "resourceVersion": t.ResourceVersion},
		"spec":     map[string]any{"replicas": int64(replicas)},
	}}
	if t.Namespace == "" {
		unstructured.RemoveNestedField(body.Object, "metadata", "namespace")
	}
	err := s.Mapper.inServedVersion(ctx, t, isScalable, func(t target) error {
		object, err := s.Dynamic.Resource(t.resource()).Namespace(t.Namespace).Update(ctx, body, metav1.UpdateOptions{FieldManager: scaleManager}, "scale")
		written = scaleOf(t, object)
		return err
	})
	return written, scaleRefused(t, err)
}

func scaleOf(t target, object *unstructured.Unstructured) scale {
	if object == nil {
		return scale{}
	}
	replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	current, _, _ := unstructured.NestedInt64(object.Object, "status", "replicas")
	t.UID, t.ResourceVersion = object.GetUID(), object.GetResourceVersion()
	return scale{t, int32(replicas), int32(current)}
}

// scaleRefused adds the missing rule to an error of missing rights.
func scaleRefused(t target, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	message, _ := phase.FailureOf(phase.Definitive(err))
	return phase.Failf("%s. To scale %s the operator needs the verbs get and update on %s/scale: grant the ServiceAccount millwright-actions that in its namespace",
		message, t, t.resource().GroupResource())
}
