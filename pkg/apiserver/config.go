// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"

	"millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/certs"
	"millwright.dev/pkg/registry/farm/farmpod"
	"millwright.dev/pkg/registry/farm/llama"
	"millwright.dev/pkg/storage/memorystore"
	"millwright.dev/pkg/storage/recordstore"
)

// listen before anything is set up, so that an address in use has a clear error.
func listen(ctx context.Context, serving *options.SecureServingOptions) (net.Listener, error) {
	address := net.JoinHostPort(serving.BindAddress.String(), strconv.Itoa(serving.BindPort))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another process serves on %s: choose another port by --secure-port (0 takes a free one)", address)
	}
	if err != nil {
		return nil, fmt.Errorf("serving on %s, which --bind-address and --secure-port set: %w", address, err)
	}
	return listener, nil
}

// genericConfig is the configuration of the generic server, all but what is served, and the limits of clients that connect directly.
func genericConfig(config *Config, to *clients, certificate *certs.Source, listener net.Listener,
	scheme *runtime.Scheme) (*genericapiserver.RecommendedConfig, *directClients, error) {
	serializer := newSerializer(scheme)
	generic := genericapiserver.NewRecommendedConfig(serializer.CodecFactory)
	generic.Serializer = serializer
	generic.ClientConfig = to.config
	// Their cache is for admission.
	generic.SharedInformerFactory = informers.NewSharedInformerFactoryWithOptions(to.kube, 0, informers.WithTransform(dropManagedFields))
	// No part of ours calls this server, so there is no token with all rights.
	generic.LoopbackClientConfig = &clientrest.Config{}
	addOpenAPI(&generic.Config)

	remove, err := config.shareCluster()
	if err != nil {
		return nil, nil, err
	}
	defer remove()
	serving := *config.Serving
	serving.Listener, serving.ServerCert = listener, options.GeneratableKeyCert{GeneratedCert: certificate}
	for _, apply := range []func() error{
		func() error { return config.Server.ApplyTo(&generic.Config) },
		func() error { return serving.ApplyTo(&generic.SecureServing) },
		func() error {
			return config.Authentication.ApplyTo(&generic.Authentication, generic.SecureServing, generic.OpenAPIConfig)
		},
		func() error { return config.Authorization.ApplyTo(&generic.Authorization) },
		func() error { return config.Audit.ApplyTo(&generic.Config) },
		func() error { return config.Features.ApplyTo(&generic.Config, to.kube, generic.SharedInformerFactory) },
		func() error {
			return config.Admission.ApplyTo(&generic.Config, generic.SharedInformerFactory, to.kube, to.dynamic, utilfeature.DefaultFeatureGate,
				generic.EffectiveVersion)
		},
	} {
		if err := apply(); err != nil {
			return nil, nil, fmt.Errorf("setting up the server: %w", err)
		}
	}
	limited, err := limitDirectClients(config, generic)
	if err != nil {
		return nil, nil, fmt.Errorf("setting up the limits of clients that connect directly: %w", err)
	}
	generic.EffectiveVersion = &programVersion{generic.EffectiveVersion, config.version}
	return generic, limited, nil
}

// programVersion makes /version report the version of the program. Features depend on the version of the libraries.
type programVersion struct {
	compatibility.EffectiveVersion
	program string
}

// Info is what /version answers.
func (v *programVersion) Info() *version.Info {
	info := *v.EffectiveVersion.Info()
	info.GitVersion, info.GitCommit, info.GitTreeState, info.BuildDate = v.program, "", "", ""
	return &info
}

// dropManagedFields halves what a cache holds. Admission does not read them.
func dropManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// llamaStorage is where Llamas are kept.
func llamaStorage(config *Config) (storage.Interface, error) {
	if config.LlamaStorage == storageMemory {
		return memorystore.New("/llamas", func() runtime.Object { return &v1alpha.Llama{} }), nil
	}
	return recordstore.NewLlamas(config.client)
}

// farm is the API group with its resources.
func farm(config *Config, generic *genericapiserver.RecommendedConfig, scheme *runtime.Scheme,
	keptIn storage.Interface) (*genericapiserver.APIGroupInfo, error) {
	llamas, err := llama.NewREST(scheme, keptIn)
	if err != nil {
		return nil, err
	}
	var access authorizer.UnconditionalAuthorizer
	if config.RequirePodAccess {
		access = generic.Authorization.Authorizer
	}
	farmPods, err := farmpod.NewREST(config.client, access)
	if err != nil {
		return nil, err
	}
	serializer := newSerializer(scheme)
	group := genericapiserver.NewDefaultAPIGroupInfo(v1alpha.GroupName, scheme, runtime.NewParameterCodec(scheme), serializer.CodecFactory)
	group.NegotiatedSerializer = serializer
	group.VersionedResourcesStorageMap[v1alpha.SchemeGroupVersion.Version] = map[string]rest.Storage{"llamas": llamas, "farmpods": farmPods}
	return &group, nil
}
