// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	farmstoragev1 "millwright.dev/pkg/apis/farmstorage/v1"
)

// resource names the objects that are stored, and their records.
type resource struct {
	objects    schema.GroupResource
	objectKind schema.GroupVersionKind // as spec.object is encoded
	prefix     string                  // of the keys, as in /llamas/default/dolly

	records    schema.GroupVersionResource
	recordKind string
}

var llamas = resource{
	objects:    schema.GroupResource{Group: farmv1alpha.GroupName, Resource: "llamas"},
	objectKind: farmv1alpha.SchemeGroupVersion.WithKind("Llama"),
	prefix:     "/llamas",
	records:    farmstoragev1.SchemeGroupVersion.WithResource("llamarecords"),
	recordKind: "LlamaRecord",
}

// NewLlamas returns a storage of Llamas over LlamaRecords. Their keys are /llamas/NAMESPACE/NAME. The configuration is that of the
// API server that has the records. Nothing is asked of it until the storage is used, and there is nothing to close: all that runs
// belongs to a watch, and ends with the watch's context.
func NewLlamas(config *rest.Config) (storage.Interface, error) {
	return newStore[farmv1alpha.Llama](config, llamas)
}
