// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Objects are those of a resource as users and other controllers see and change them. None of it is a request: nothing is logged or
// fails by script.
type Objects[T any] struct {
	s        *Server
	resource schema.GroupVersionResource
}

// Of returns the objects of a resource, whose Go type is T.
func Of[T any](s *Server, resource Resource) Objects[T] {
	return Objects[T]{s, resource.GroupVersionResource}
}

// Get returns the newest version of an object, nil if there is none.
func (o Objects[T]) Get(namespace, name string) *T {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	object := o.s.objects[objectKey{o.resource, namespace, name}]
	if object == nil {
		return nil
	}
	return As[T](object)
}

// List returns all objects, by namespace and name.
func (o Objects[T]) List() (typed []*T) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	objects, _ := o.s.at(o.resource, len(o.s.history))
	for _, object := range objects {
		typed = append(typed, As[T](object))
	}
	return typed
}

// Create an object. Its UID, generation and status are kept if they are set.
func (o Objects[T]) Create(object *T) {
	o.s.t.Helper()
	o.do("create", o.content(object), func(r *Request, resource *Resource, object *unstructured.Unstructured) error {
		_, err := o.s.add(r, resource, object)
		return err
	})
}

// Update an object, its status and what else the function changes. A change of the deletionTimestamp is a deletion.
func (o Objects[T]) Update(namespace, name string, change func(*T)) {
	o.s.t.Helper()
	before := o.Get(namespace, name)
	if before == nil {
		o.s.t.Fatalf("there is no %s %s/%s to update", o.resource.Resource, namespace, name)
	}
	change(before)
	o.do("update", o.content(before), func(r *Request, resource *Resource, object *unstructured.Unstructured) error {
		_, err := o.s.commit(r, resource, object)
		return err
	})
}

// Delete an object, as kubectl delete --ignore-not-found does: the code under test may have just deleted it.
func (o Objects[T]) Delete(namespace, name string) {
	o.s.t.Helper()
	o.do("delete", named(namespace, name), func(r *Request, resource *Resource, _ *unstructured.Unstructured) error {
		if r.Before == nil {
			return nil
		}
		_, err := o.s.delete(r, resource)
		return err
	})
}

// Remove an object immediately, whatever its finalizers and its grace period are.
func (o Objects[T]) Remove(namespace, name string) {
	o.s.t.Helper()
	o.do("delete", named(namespace, name), func(r *Request, resource *Resource, _ *unstructured.Unstructured) error {
		if r.Before == nil {
			return notFound(r)
		}
		o.s.store(resource, r.Before, r.Before.DeepCopy(), true)
		return nil
	})
}

func (o Objects[T]) content(object *T) *unstructured.Unstructured {
	o.s.t.Helper()
	if same, ok := any(object).(*unstructured.Unstructured); ok {
		return same.DeepCopy()
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		o.s.t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

func named(namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// do something as if by a request of that verb.
func (o Objects[T]) do(verb string, object *unstructured.Unstructured, do func(*Request, *Resource, *unstructured.Unstructured) error) {
	o.s.t.Helper()
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	r := &Request{Verb: verb, Resource: o.resource, Namespace: object.GetNamespace(), Name: object.GetName()}
	r.Before = o.s.objects[objectKey{r.Resource, r.Namespace, r.Name}]
	if err := do(r, o.s.resources[o.resource], object); err != nil {
		o.s.t.Fatal(err)
	}
}
