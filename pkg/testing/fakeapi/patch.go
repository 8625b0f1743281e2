// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

const applyPatch = string(types.ApplyPatchType)

func (s *Server) patch(r *Request, resource *Resource) (*unstructured.Unstructured, error) {
	if r.ContentType == applyPatch {
		return s.apply(r, resource)
	}
	if r.Before == nil {
		return nil, notFound(r)
	}
	old, err := utiljson.Marshal(r.Before.Object)
	if err != nil {
		return nil, err
	}
	var patched []byte
	switch types.PatchType(r.ContentType) {
	case types.MergePatchType:
		patched, err = jsonpatch.MergePatch(old, r.Body)
	case types.StrategicMergePatchType:
		if resource.Object == nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", r.Resource.GroupResource(), r.Name, "", 0, false)
		}
		patched, err = strategicpatch.StrategicMergePatch(old, r.Body, resource.Object)
	case types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(r.Body); err == nil {
			patched, err = patch.Apply(old)
		}
	default:
		err = fmt.Errorf("unknown patch type %q", r.ContentType)
	}
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", r.Resource.GroupResource(), r.Name, err.Error(), 0, false)
	}
	object := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(patched, &object.Object); err != nil {
		return nil, err
	}
	return s.replace(r, resource, object)
}

// apply is a server-side apply, which creates what is not there.
func (s *Server) apply(r *Request, resource *Resource) (*unstructured.Unstructured, error) {
	if resource.TypeConverter == nil {
		return nil, apierrors.NewBadRequest("fakeapi: the Resource has no TypeConverter")
	}
	fields, err := resource.fieldManager(r.Subresource)
	if err != nil {
		return nil, err
	}
	patch, live := r.Object(), r.Before
	if live == nil {
		if uid := patch.GetUID(); uid != "" {
			return nil, conflict(r, fmt.Sprintf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
		}
		live = resource.empty()
	}
	applied, err := fields.Apply(live.DeepCopy(), patch, r.Query.Get("fieldManager"), r.Query.Get("force") == "true")
	switch answer := apierrors.APIStatus(nil); {
	case err != nil && !errors.As(err, &answer): // that the schema does not allow it
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}}
	case err != nil:
		return nil, err
	}
	object := applied.(*unstructured.Unstructured)
	if r.Before == nil {
		object.SetNamespace(r.Namespace)
		return s.add(r, resource, object)
	}
	return s.replace(r, resource, object)
}

// trackUpdate records which fields a request that is no apply changed.
func (r *Resource) trackUpdate(request *Request, before, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	fields, err := r.fieldManager(request.Subresource)
	if err != nil {
		return nil, err
	}
	if before == nil {
		before = r.empty()
	}
	tracked, err := fields.Update(before.DeepCopy(), object, managerOf(request))
	if err != nil {
		return nil, err
	}
	return tracked.(*unstructured.Unstructured), nil
}

// managerOf returns the field manager of a request: what it names, or else what the user agent begins with.
func managerOf(r *Request) string {
	if name := r.Query.Get("fieldManager"); name != "" {
		return name
	}
	if r.http == nil {
		return "test"
	}
	name, _, _ := strings.Cut(r.http.UserAgent(), "/")
	return name
}

func (r *Resource) empty() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(r.GroupVersion().WithKind(r.kind()))
	return object
}

func (r *Resource) fieldManager(subresource string) (*managedfields.FieldManager, error) {
	return managedfields.NewDefaultCRDFieldManager(r.TypeConverter, sameVersion{}, sameVersion{}, sameVersion{},
		r.GroupVersion().WithKind(r.kind()), r.GroupVersion(), subresource, nil)
}

// sameVersion is for resources of one version: nothing is converted or defaulted.
type sameVersion struct{}

func (sameVersion) Convert(any, any, any) error { return errVerb }

func (sameVersion) ConvertToVersion(object runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return object, nil
}

func (sameVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (sameVersion) Default(runtime.Object) {}

func (sameVersion) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, nil
}
