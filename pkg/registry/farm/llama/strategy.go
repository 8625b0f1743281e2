// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package llama

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	"millwright.dev/pkg/apis/farm/v1alpha"
)

// strategy is what happens to a Llama on its way into storage. It is that of a custom resource of the same shape: who moves
// from one to the other notices nothing.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

var (
	_ rest.RESTCreateStrategy = strategy{}
	_ rest.RESTUpdateStrategy = strategy{}
	_ rest.RESTDeleteStrategy = strategy{}
)

func newStrategy(scheme *runtime.Scheme) strategy { return strategy{scheme, names.SimpleNameGenerator} }

// NamespaceScoped returns true: each Llama is in a namespace.
func (strategy) NamespaceScoped() bool { return true }

// PrepareForCreate sets what users do not.
func (strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	object.(*v1alpha.Llama).Generation = 1
}

// PrepareForUpdate counts the generation up when the specification changes.
func (strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	updated, current := object.(*v1alpha.Llama), old.(*v1alpha.Llama)
	updated.Generation = current.Generation
	if updated.Spec != current.Spec {
		updated.Generation++
	}
}

// Validate returns what is wrong with a new Llama.
func (strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	return validate(object.(*v1alpha.Llama))
}

// ValidateUpdate returns what is wrong with a changed Llama.
func (strategy) ValidateUpdate(_ context.Context, object, _ runtime.Object) field.ErrorList {
	return validate(object.(*v1alpha.Llama))
}

// Canonicalize has nothing to do: each value has one form.
func (strategy) Canonicalize(runtime.Object) {}

// WarningsOnCreate returns none.
func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate returns none.
func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// AllowCreateOnUpdate is false: PUT of what is not there is a 404.
func (strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate is false: PUT needs a resourceVersion, or it would overwrite what it has not seen.
func (strategy) AllowUnconditionalUpdate(context.Context) bool { return false }
