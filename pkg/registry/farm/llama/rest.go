// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package llama

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	"millwright.dev/pkg/apis/farm/v1alpha"
)

const (
	plural    = "llamas"
	singular  = "llama"
	shortName = "ll"
)

// deleteCollectionWorkers is the number of Llamas that one deletecollection deletes at a time.
const deleteCollectionWorkers = 8

// REST serves Llamas, with all verbs that a resource can have and no subresource.
type REST struct {
	*genericregistry.Store
}

var (
	_ rest.StandardStorage      = &REST{}
	_ rest.ShortNamesProvider   = &REST{}
	_ rest.CategoriesProvider   = &REST{}
	_ rest.SingularNameProvider = &REST{}
)

// NewREST serves the Llamas that are in a storage. Its keys are /llamas/NAMESPACE/NAME. The scheme must know the types of v1alpha.
func NewREST(scheme *runtime.Scheme, keptIn storage.Interface) (*REST, error) {
	rules := newStrategy(scheme)
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &v1alpha.Llama{} },
		NewListFunc:               func() runtime.Object { return &v1alpha.LlamaList{} },
		DefaultQualifiedResource:  v1alpha.Resource(plural),
		SingularQualifiedResource: v1alpha.Resource(singular),
		CreateStrategy:            rules,
		UpdateStrategy:            rules,
		DeleteStrategy:            rules,
		TableConvertor:            table{},
		Storage: genericregistry.DryRunnableStorage{
			Storage: keptIn,
			Codec:   serializer.NewCodecFactory(scheme).LegacyCodec(v1alpha.SchemeGroupVersion),
		},
	}
	// These are all the options that the Store looks at when it is given its storage.
	options := generic.RESTOptions{
		ResourcePrefix:          plural,
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: deleteCollectionWorkers,
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, fmt.Errorf("setting up the storage of %s: %w", v1alpha.Resource(plural), err)
	}
	return &REST{store}, nil
}

// ShortNames are those that kubectl takes.
func (*REST) ShortNames() []string { return []string{shortName} }

// Categories are the names of groups of resources that kubectl takes.
func (*REST) Categories() []string { return []string{"farm", "millwright"} }
