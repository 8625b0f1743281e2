// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// Resource is what the server knows of a resource.
type Resource struct {
	schema.GroupVersionResource
	// Object is an object of the Go type, which decides which fields are kept. If it is nil, Kind is the kind, and all fields are kept.
	Object runtime.Object
	Kind   string
	// ClusterScoped objects have no namespace.
	ClusterScoped bool
	// Status reports whether the resource has the status subresource.
	Status bool
	// Generation reports whether metadata.generation counts the changes of everything but metadata and status.
	Generation bool
	// Admit changes what is about to be stored, or refuses it, as defaulting, validation and admission do. before is nil for a
	// create.
	Admit func(before, object *unstructured.Unstructured) error
	// GracePeriod returns the seconds that an object lives on after its deletion. Nil is no graceful deletion.
	GracePeriod func(*unstructured.Unstructured) int64
	// TypeConverter makes the server track managed fields. Without one, applies are refused.
	TypeConverter managedfields.TypeConverter
}

// Resources of Kubernetes.
var (
	Namespaces = Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces"), Object: &corev1.Namespace{}, ClusterScoped: true}
	ConfigMaps = Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Object: &corev1.ConfigMap{}, TypeConverter: builtin}
	Secrets    = Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"), Object: &corev1.Secret{}}
	Events     = Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("events"), Object: &corev1.Event{}}
	Services   = Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("services"), Object: &corev1.Service{}, Status: true,
		TypeConverter: builtin}
	Deployments = Resource{GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments"), Object: &appsv1.Deployment{}, Status: true,
		Generation: true, TypeConverter: builtin}
	// Pods are scheduled and pending as soon as they are created.
	Pods = Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Object: &corev1.Pod{}, Status: true,
		Admit: Admit(schedule), GracePeriod: podGracePeriod}
)

var builtin = applyconfigurations.NewTypeConverter(scheme.Scheme)

// Custom returns the resource of a CustomResourceDefinition with the status subresource.
func Custom(resource schema.GroupVersionResource, object runtime.Object) Resource {
	return Resource{GroupVersionResource: resource, Object: object, Status: true, Generation: true}
}

// Admit returns an admission function for objects of the Go type T.
func Admit[T any](admit func(before, object *T) error) func(before, object *unstructured.Unstructured) error {
	return func(before, object *unstructured.Unstructured) error {
		var typedBefore *T
		if before != nil {
			typedBefore = As[T](before)
		}
		typed := As[T](object)
		if err := admit(typedBefore, typed); err != nil {
			return err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		if err == nil {
			object.Object = content
		}
		return err
	}
}

func schedule(before, pod *corev1.Pod) error {
	if before != nil {
		return nil
	}
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = "node"
	}
	if pod.Status.Phase == "" {
		pod.Status.Phase = corev1.PodPending
	}
	return nil
}

func podGracePeriod(object *unstructured.Unstructured) int64 {
	pod := As[corev1.Pod](object)
	switch seconds := pod.Spec.TerminationGracePeriodSeconds; {
	case pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return 0
	case seconds != nil:
		return *seconds
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

// kind returns the kind of the objects.
func (r *Resource) kind() string {
	if r.Object != nil {
		return reflect.TypeOf(r.Object).Elem().Name()
	}
	return r.Kind
}

// normal returns the object as the Go type stores it: without unknown fields, empty ones and nulls.
func (r *Resource) normal(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if r.Object != nil {
		typed := reflect.New(reflect.TypeOf(r.Object).Elem()).Interface()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
			return nil, err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		if err != nil {
			return nil, err
		}
		object = &unstructured.Unstructured{Object: content}
	}
	object.SetGroupVersionKind(r.GroupVersion().WithKind(r.kind()))
	return object, nil
}

// As returns the object as one of the Go type T.
func As[T any](object *unstructured.Unstructured) *T {
	if same, ok := any(object.DeepCopy()).(*T); ok {
		return same
	}
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		panic("fakeapi: " + err.Error())
	}
	return typed
}

// discovery returns what the server shows of the resource.
func (r *Resource) discovery() []metav1.APIResource {
	shown := []metav1.APIResource{{Name: r.Resource, Kind: r.kind(), Namespaced: !r.ClusterScoped,
		Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}}}
	if r.Status {
		shown = append(shown, metav1.APIResource{Name: r.Resource + "/status", Kind: r.kind(), Namespaced: !r.ClusterScoped,
			Verbs: metav1.Verbs{"get", "patch", "update"}})
	}
	return shown
}
