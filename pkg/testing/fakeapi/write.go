// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// optimisticLock is the text of kube-apiserver (registry.OptimisticLockErrorMsg of k8s.io/apiserver).
const optimisticLock = "the object has been modified; please apply your changes to the latest version and try again"

func notFound(r *Request) error { return apierrors.NewNotFound(r.Resource.GroupResource(), r.Name) }

func conflict(r *Request, text string) error {
	return apierrors.NewConflict(r.Resource.GroupResource(), r.Name, errors.New(text))
}

// nameFor returns the name of an object that is about to be created.
func (s *Server) nameFor(object *unstructured.Unstructured) string {
	if prefix := object.GetGenerateName(); object.GetName() == "" && prefix != "" {
		return fmt.Sprintf("%s%05d", prefix, s.uids+1)
	}
	return object.GetName()
}

func (s *Server) create(r *Request, resource *Resource) (*unstructured.Unstructured, error) {
	object := r.Object()
	object.SetName(r.Name)
	if object.GetNamespace() == "" && !resource.ClusterScoped {
		object.SetNamespace(r.Namespace)
	}
	for _, name := range systemFields {
		delete(object.Object["metadata"].(map[string]any), name)
	}
	if resource.Status {
		delete(object.Object, "status")
	}
	return s.add(r, resource, object)
}

// add stores a new object.
func (s *Server) add(r *Request, resource *Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	// Events are named by the time: in virtual time several have one name, and the last one stays.
	if s.objects[objectKey{r.Resource, r.Namespace, r.Name}] != nil && r.Resource != Events.GroupVersionResource {
		return nil, apierrors.NewAlreadyExists(r.Resource.GroupResource(), r.Name)
	}
	if object.GetUID() == "" {
		if r.Resource != Events.GroupVersionResource {
			s.uids++
		}
		object.SetUID(types.UID(fmt.Sprintf("uid-%s-%d", strings.ToLower(resource.kind()), s.uids)))
	}
	if created := object.GetCreationTimestamp(); created.IsZero() {
		object.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	}
	if resource.Generation && object.GetGeneration() == 0 {
		object.SetGeneration(1)
	}
	object, err := s.admit(r, resource, nil, object)
	if err != nil {
		return nil, err
	}
	if r.dryRun() {
		return object, nil
	}
	r.After = s.store(resource, nil, object, false)
	return object, nil
}

func (s *Server) admit(r *Request, resource *Resource, before, object *unstructured.Unstructured) (_ *unstructured.Unstructured, err error) {
	if resource.Admit != nil {
		if err := resource.Admit(before, object); err != nil {
			return nil, err
		}
	}
	if object, err = resource.normal(object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if resource.TypeConverter != nil && r.ContentType != applyPatch {
		return resource.trackUpdate(r, before, object)
	}
	return object, nil
}

func (s *Server) update(r *Request, resource *Resource) (*unstructured.Unstructured, error) {
	object := r.Object()
	if r.Before == nil {
		return nil, notFound(r)
	}
	if uid := object.GetUID(); uid != "" && uid != r.Before.GetUID() {
		return nil, conflict(r, fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, r.Before.GetUID()))
	}
	if object.GetUID() == "" {
		object.SetUID(r.Before.GetUID())
	}
	return s.replace(r, resource, object)
}

// replace stores an object in the place of the one before, as far as the request may change it.
func (s *Server) replace(r *Request, resource *Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	before := r.Before
	switch version := object.GetResourceVersion(); {
	case version != "" && version != before.GetResourceVersion():
		return nil, conflict(r, optimisticLock)
	case object.GetUID() != before.GetUID():
		return nil, apierrors.NewInvalid(r.Resource.GroupVersion().WithKind(resource.kind()).GroupKind(), r.Name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), object.GetUID(), "field is immutable")})
	}
	if r.Subresource == "status" {
		status, managed := object.Object["status"], object.GetManagedFields()
		object = before.DeepCopy()
		object.Object["status"] = status
		object.SetManagedFields(managed)
	} else if resource.Status {
		setOrDelete(object.Object, "status", before.Object["status"])
	}
	for _, name := range systemFields {
		value, _, _ := unstructured.NestedFieldNoCopy(before.Object, "metadata", name)
		setOrDelete(object.Object["metadata"].(map[string]any), name, value)
	}
	return s.commit(r, resource, object)
}

// systemFields of the metadata are set by the server alone.
var systemFields = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"}

// commit stores a new version of an object unless it is the one before, and removes what was kept by nothing but finalizers.
func (s *Server) commit(r *Request, resource *Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	before := r.Before
	object, err := s.admit(r, resource, before, object)
	if err != nil {
		return nil, err
	}
	if equalWithout(before, object, []string{"metadata", "managedFields"}) {
		r.After = before
		return before, nil
	}
	if resource.Generation && !equalWithout(before, object, []string{"metadata"}, []string{"status"}) {
		object.SetGeneration(before.GetGeneration() + 1)
	}
	if r.dryRun() {
		return object, nil
	}
	deleted := object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && ptr.Deref(object.GetDeletionGracePeriodSeconds(), 0) == 0
	if s.store(resource, before, object, deleted); !deleted {
		r.After = object
	}
	return object, nil
}

func (s *Server) delete(r *Request, resource *Resource) (*unstructured.Unstructured, error) {
	var options metav1.DeleteOptions
	if len(r.Body) > 0 {
		options = Decode[metav1.DeleteOptions](r)
	}
	before := r.Before
	if before == nil {
		return nil, notFound(r)
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != before.GetUID() {
			return nil, conflict(r, fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, before.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != before.GetResourceVersion() {
			return nil, conflict(r, fmt.Sprintf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v",
				*p.ResourceVersion, before.GetResourceVersion()))
		}
	}
	grace := int64(0)
	if resource.GracePeriod != nil {
		if grace = resource.GracePeriod(before); grace > 0 && options.GracePeriodSeconds != nil {
			grace = *options.GracePeriodSeconds
		}
	}
	object := before.DeepCopy()
	addFinalizer(object, options.PropagationPolicy)
	kept := len(object.GetFinalizers()) > 0 || grace > 0
	switch old := object.GetDeletionGracePeriodSeconds(); {
	case !kept && resource.GracePeriod == nil:
		return s.store(resource, before, object, true), nil
	case kept && object.GetDeletionTimestamp() != nil && ptr.Deref(old, 0) <= grace:
		r.After = before
		return before, nil // it terminates no later already
	}
	if object.GetDeletionTimestamp() == nil && object.GetGeneration() > 0 {
		object.SetGeneration(object.GetGeneration() + 1)
	}
	object.SetDeletionTimestamp(ptr.To(metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second))))
	object.SetDeletionGracePeriodSeconds(&grace)
	r.After = s.store(resource, before, object, false)
	if !kept { // watches show first that it terminates, then that it is gone
		r.After = nil
		s.store(resource, object, object.DeepCopy(), true)
	}
	return object, nil
}

// addFinalizer that the garbage collector works off.
func addFinalizer(object *unstructured.Unstructured, policy *metav1.DeletionPropagation) {
	switch ptr.Deref(policy, "") {
	case metav1.DeletePropagationForeground:
		object.SetFinalizers(append(object.GetFinalizers(), metav1.FinalizerDeleteDependents))
	case metav1.DeletePropagationOrphan:
		object.SetFinalizers(append(object.GetFinalizers(), metav1.FinalizerOrphanDependents))
	}
}

func setOrDelete(fields map[string]any, name string, value any) {
	if fields[name] = value; value == nil {
		delete(fields, name)
	}
}

// equalWithout reports whether two objects differ in nothing but these fields, which are paths.
func equalWithout(a, b *unstructured.Unstructured, paths ...[]string) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, path := range paths {
		unstructured.RemoveNestedField(a.Object, path...)
		unstructured.RemoveNestedField(b.Object, path...)
	}
	return reflect.DeepEqual(a.Object, b.Object)
}
