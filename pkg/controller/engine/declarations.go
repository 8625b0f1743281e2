// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/engine/parent"
)

// Declarations are the objects of one kind that declare what the engine hosts: CompositeControllers or DecoratorControllers. They are read from a
// cache.
type Declarations interface {
	Kind() parent.Kind
	Resource() schema.GroupResource
	Informer() cache.SharedIndexInformer

	// List returns all of them, and Get one; its error is that of a lister.
	List() []*parent.Declaration
	Get(name string) (*parent.Declaration, error)
	// UpdateStatus writes a status.
	UpdateStatus(ctx context.Context, d *parent.Declaration, status parent.Status) (*parent.Declaration, error)
	// PatchFinalizers writes nothing but the finalizers: an update of the whole object would drop the fields of newer versions of the kind.
	PatchFinalizers(ctx context.Context, d *parent.Declaration, finalizers []string) (*parent.Declaration, error)

	// watch makes a loop sync the keys after an event, as controller.Watch does.
	watch(ctx context.Context, loop *controller.Loop[parent.Key], on handlers) error
	// count publishes how many there are in each state, by their conditions, until the context ends.
	count(ctx context.Context, conditions func(*parent.Declaration) []metav1.Condition)
}

// handlers are called with declarations that have changed, as those of a controller.Source are.
type handlers struct {
	keys     func(*parent.Declaration) []parent.Key
	observed func(*parent.Declaration)
	deleted  func(types.UID)
}

// Object is a CompositeController or a DecoratorController.
type Object interface {
	cache.Object
	runtime.Object
	metav1.Object
}

// Lister is the generated lister of a kind.
type Lister[T Object] interface {
	List(selector labels.Selector) ([]T, error)
	Get(name string) (T, error)
}

// Client is the generated client of a kind.
type Client[T Object] interface {
	UpdateStatus(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, as types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

// Source is where the Declarations of a kind come from.
type Source[T Object] struct {
	Kind     parent.Kind
	Resource schema.GroupResource
	Informer cache.TypedSharedIndexInformer[T]
	Lister   Lister[T]
	Client   Client[T]
	// From returns the Declaration of an object.
	From func(T) *parent.Declaration
	// Copy returns a deep copy of an object.
	Copy func(T) T
}

// NewDeclarations returns the Declarations of a source.
func NewDeclarations[T Object](from Source[T]) Declarations { return declarations[T]{from} }

type declarations[T Object] struct{ source Source[T] }

func (d declarations[T]) Kind() parent.Kind                   { return d.source.Kind }
func (d declarations[T]) Resource() schema.GroupResource      { return d.source.Resource }
func (d declarations[T]) Informer() cache.SharedIndexInformer { return d.source.Informer }

func (d declarations[T]) List() (all []*parent.Declaration) {
	objects, _ := d.source.Lister.List(labels.Everything()) // a cache returns no error
	for _, o := range objects {
		all = append(all, d.source.From(o))
	}
	return all
}

func (d declarations[T]) Get(name string) (*parent.Declaration, error) {
	o, err := d.source.Lister.Get(name)
	if err != nil {
		return nil, err
	}
	return d.source.From(o), nil
}

func (d declarations[T]) UpdateStatus(ctx context.Context, of *parent.Declaration, status parent.Status) (*parent.Declaration, error) {
	changed := d.source.Copy(of.Object.(T))
	status.SetOn(changed)
	written, err := d.source.Client.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return d.source.From(written), nil
}

func (d declarations[T]) PatchFinalizers(ctx context.Context, of *parent.Declaration, finalizers []string) (*parent.Declaration, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": of.UID, "resourceVersion": of.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return nil, err
	}
	written, err := d.source.Client.Patch(ctx, of.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	return d.source.From(written), nil
}

func (d declarations[T]) watch(ctx context.Context, loop *controller.Loop[parent.Key], on handlers) error {
	return controller.Watch(ctx, loop, controller.Source[T, parent.Key]{
		Informer: d.source.Informer,
		Keys:     func(o T) []parent.Key { return on.keys(d.source.From(o)) },
		Observed: func(o T) { on.observed(d.source.From(o)) },
		Deleted:  func(o T, _ bool) { on.deleted(o.GetUID()) },
	})
}

// finalizerOf is the finalizer that keeps a declaration of a kind until the finalizers that it has put on parents are removed.
func finalizerOf(kind parent.Kind) string { return "millwright.dev/" + strings.ToLower(string(kind)) }

// hasFinalizer reports whether a declaration has our finalizer.
func hasFinalizer(d *parent.Declaration) bool {
	return slices.Contains(d.Finalizers, finalizerOf(d.Kind))
}
