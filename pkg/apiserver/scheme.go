// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/registry/farm/farmpod"
)

// newScheme knows the types that are served. The Go types of the only version are the internal ones too: nothing is converted.
func newScheme() *runtime.Scheme {
	scheme := publicScheme()
	scheme.AddKnownTypes(schema.GroupVersion{Group: v1alpha.GroupName, Version: runtime.APIVersionInternal},
		&v1alpha.Llama{}, &v1alpha.LlamaList{}, &v1alpha.FarmPod{}, &v1alpha.FarmPodList{})
	utilruntime.Must(scheme.SetVersionPriority(v1alpha.SchemeGroupVersion))
	utilruntime.Must(farmpod.AddFieldLabels(scheme))
	return scheme
}

// publicScheme knows the types as clients do, without an internal version.
func publicScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(v1alpha.Install(scheme))
	// What every API server answers with. It is of version v1 without a group, whatever the version of the objects.
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, unversioned)
	scheme.AddUnversionedTypes(unversioned,
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}

// serverSerializer negotiates JSON and YAML. Our types have no protobuf form: a client that would take it first gets its second
// choice, and one that takes nothing else gets a 406, where a server that offers it fails half-way.
type serverSerializer struct{ serializer.CodecFactory }

func newSerializer(scheme *runtime.Scheme) serverSerializer {
	// Lists are written item by item, and are never in memory a second time.
	return serverSerializer{serializer.NewCodecFactory(scheme, serializer.WithStreamingCollectionEncodingToJSON())}
}

// SupportedMediaTypes is what can be negotiated.
func (s serverSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.CodecFactory.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}
