// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package farmpod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	registry "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	farm "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/registry/farm/farmpod/podwire"
)

var resource = farm.Resource("farmpods")

// REST answers requests for FarmPods by asking for Pods.
type REST struct {
	client rest.Interface
	access authorizer.UnconditionalAuthorizer
}

var (
	_ registry.Getter               = &REST{}
	_ registry.Lister               = &REST{}
	_ registry.Watcher              = &REST{}
	_ registry.Scoper               = &REST{}
	_ registry.SingularNameProvider = &REST{}
	_ registry.ShortNamesProvider   = &REST{}
	_ registry.CategoriesProvider   = &REST{}
)

// NewREST returns what reads Pods by the config, without a limit of its own. If access is given, it is asked whether the caller
// may do with Pods what he does with FarmPods.
func NewREST(config *rest.Config, access authorizer.UnconditionalAuthorizer) (*REST, error) {
	config = rest.CopyConfig(config)
	config.AcceptContentTypes = runtime.ContentTypeProtobuf // which is what podwire reads
	config.DisableCompression = true                        // to pack and unpack Pods takes longer than to send them as they are
	config.QPS = -1                                         // our callers have passed the limits of the API server
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client that reads Pods: %w", err)
	}
	return &REST{client: client.RESTClient(), access: access}, nil
}

// New implements rest.Storage.
func (*REST) New() runtime.Object { return &farm.FarmPod{} }

// Destroy implements rest.Storage. There is nothing that outlives a request.
func (*REST) Destroy() {}

// NewList implements rest.Lister.
func (*REST) NewList() runtime.Object { return &farm.FarmPodList{} }

// NamespaceScoped implements rest.Scoper.
func (*REST) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (*REST) GetSingularName() string { return "farmpod" }

// ShortNames implements rest.ShortNamesProvider.
func (*REST) ShortNames() []string { return []string{"fp"} }

// Categories implements rest.CategoriesProvider.
func (*REST) Categories() []string { return []string{"farm", "millwright"} }

// Get implements rest.Getter.
func (r *REST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	pod, ok := podName(name)
	if !ok {
		return nil, notFound(name)
	}
	if err := r.allow(ctx, "get", pod); err != nil {
		return nil, err
	}
	found := &corev1.Pod{}
	if err := r.ask(ctx).Name(pod).VersionedParams(options, scheme.ParameterCodec).Do(ctx).Into(found); err != nil {
		return nil, explain(ctx, "get", err)
	}
	return convert(found), nil
}

// List implements rest.Lister.
func (r *REST) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	asked, err := podOptions(options)
	if err != nil {
		return nil, err
	}
	if err := r.allow(ctx, "list", selectedPod(options)); err != nil {
		return nil, err
	}
	body, err := r.askWith(ctx, asked).Stream(ctx)
	if err != nil {
		return nil, explain(ctx, "list", err)
	}
	defer body.Close()
	list := &farm.FarmPodList{Items: []farm.FarmPod{}}
	list.ListMeta, err = podwire.ReadList(body, func(pod *corev1.Pod) { convertInto(add(&list.Items), pod) })
	if err != nil {
		return nil, explain(ctx, "list", err)
	}
	return list, nil
}

// ask begins a request for the Pods of the namespace. When the API server says that it should be made again later, it is the caller who
// hears that: if we did too, he would wait for all our tries at each of his.
func (r *REST) ask(ctx context.Context) *rest.Request {
	namespace := request.NamespaceValue(ctx)
	return r.client.Get().MaxRetries(0).NamespaceIfScoped(namespace, namespace != "").Resource("pods")
}

func (r *REST) askWith(ctx context.Context, options *metav1.ListOptions) *rest.Request {
	asking := r.ask(ctx).VersionedParams(options, scheme.ParameterCodec)
	if options.TimeoutSeconds != nil {
		asking.Timeout(time.Duration(*options.TimeoutSeconds) * time.Second)
	}
	return asking
}
