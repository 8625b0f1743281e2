// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright.dev/pkg/phase"
)

// maxOwners is how many levels of owners are followed.
const maxOwners = 10

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
		mapping, err := s.Mapper.RESTMapping(schema.GroupKind{Group: group.Group, Kind: reference.Kind}, group.Version)
		if meta.IsNoMatchError(err) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("looking for the resource of kind %s: %w", reference.Kind, err)
		}
		owner, err := s.scaleTargetOf(mapping, object.GetNamespace(), reference.Name)
		if err != nil {
			return nil, err
		}
		found, err := s.Dynamic.Resource(mapping.Resource).Namespace(owner.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
			if owner.scalable {
				highest = &owner.target
			}
			return highest, nil
		case apierrors.IsNotFound(err), err == nil && found.GetUID() != reference.UID:
			return highest, nil // the owner is gone and reverts nothing
		case err != nil:
			return nil, fmt.Errorf("reading %s, which owns %s: %w", owner, object.GetName(), err)
		}
		if owner.scalable {
			highest = &owner.target
		}
		object = found
	}
	return highest, nil
}

// scaleTargetOf returns the target of an object, and whether its kind has a scale subresource.
func (s *ScaleWorkload) scaleTargetOf(mapping *meta.RESTMapping, namespace, name string) (found struct {
	target
	scalable bool
}, _ error) {
	served, err := s.Client.Discovery().ServerResourcesForGroupVersion(mapping.Resource.GroupVersion().String())
	if err != nil {
		return found, fmt.Errorf("looking whether %s can be scaled: %w", mapping.Resource.GroupResource(), err)
	}
	found.target = target{Group: mapping.Resource.Group, APIVersion: mapping.Resource.Version, Resource: mapping.Resource.Resource, Name: name}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		found.Namespace = namespace
	}
	found.scalable = slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == mapping.Resource.Resource+"/scale" })
	return found, nil
}

// mappingOf returns the mapping of a kind as users write it: HelloApp, helloapps, helloapps.apps.anupam.com. It returns a *Failure if there is
// none.
func (s *ScaleWorkload) mappingOf(kind string) (*meta.RESTMapping, error) {
	named := schema.ParseGroupResource(strings.ToLower(kind))
	look := func() (*meta.RESTMapping, error) {
		found, err := s.Mapper.KindFor(named.WithVersion(""))
		if err != nil {
			return nil, err
		}
		return s.Mapper.RESTMapping(found.GroupKind(), found.Version)
	}
	mapping, err := look()
	if meta.IsNoMatchError(err) {
		s.Mapper.Reset()
		mapping, err = look()
	}
	switch {
	case meta.IsNoMatchError(err):
		return nil, phase.Failf("Workload type not supported %s: the API server serves no such kind", kind)
	case err != nil:
		return nil, fmt.Errorf("looking for the kind %s: %w", kind, err)
	}
	return mapping, nil
}

// scale is the scale subresource of an object.
type scale struct {
	target
	replicas, current int32
}

func (s *ScaleWorkload) getScale(ctx context.Context, t target) (scale, error) {
	found, err := s.Dynamic.Resource(t.resource()).Namespace(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{}, "scale")
	return scaleOf(t, found), scaleRefused(t, err)
}

// putScale sets the replicas, with the UID and the resourceVersion of the target as preconditions.
func (s *ScaleWorkload) putScale(ctx context.Context, t target, replicas int32) (scale, error) {
	body := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale",
		"metadata": map[string]any{"name": t.Name, "namespace": t.Namespace, "uid": string(t.UID), "resourceVersion": t.ResourceVersion},
		"spec":     map[string]any{"replicas": int64(replicas)},
	}}
	if t.Namespace == "" {
		unstructured.RemoveNestedField(body.Object, "metadata", "namespace")
	}
	found, err := s.Dynamic.Resource(t.resource()).Namespace(t.Namespace).Update(ctx, body, metav1.UpdateOptions{FieldManager: scaleManager}, "scale")
	return scaleOf(t, found), scaleRefused(t, err)
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
