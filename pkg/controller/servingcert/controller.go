// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"millwright.dev/pkg/certs"
	"millwright.dev/pkg/controller"
)

// ControllerName names the controller on the command line, in logs, metrics and events.
const ControllerName = "servingcert"

// LabelInject asks for the caBundle, with the value "true".
const LabelInject = "millwright.dev/inject-ca"

// clusterDomain is that of nearly all clusters. The aggregation layer does not use names that end with it; direct callers may.
const clusterDomain = "cluster.local"

var (
	// APIServices are what tells kube-apiserver where an API is served, and whom to trust there.
	APIServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

	// service is what the certificate is for, and secret where it is kept.
	service = types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "farm-operator"}
	secret  = types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "farm-operator-serving"}
	// names by which the server is called. The last one is for who looks at it on its own machine.
	names = append(certs.ServiceNames(service.Namespace, service.Name, clusterDomain), "localhost")
)

// Config is what a Controller is made of. All but Namespace are required.
type Config struct {
	KubeClient kubernetes.Interface
	Dynamic    dynamic.Interface
	// Select returns an informer of the objects that the options select, which is started by others.
	Select   func(resource schema.GroupVersionResource, namespace string, options func(*metav1.ListOptions)) cache.SharedIndexInformer
	Recorder record.EventRecorder
	// Namespace to work in; "" for all.
	Namespace string
}

// Controller keeps the certificate.
type Controller struct {
	*controller.Loop[types.NamespacedName]

	kubeClient  kubernetes.Interface
	dynamic     dynamic.Interface
	recorder    record.EventRecorder
	apiServices cache.Store
	lifetimes   certs.Lifetimes

	// conflict is the Secret of somebody else that was told last. The one key is synced by one worker at a time.
	conflict types.UID
}

// New returns the controller; Run starts it.
func New(ctx context.Context, config Config) (controller.Controller, error) {
	if config.Namespace != "" && config.Namespace != service.Namespace {
		return idle{}, nil
	}
	apiServices := config.Select(APIServices, metav1.NamespaceAll, func(options *metav1.ListOptions) { options.LabelSelector = LabelInject + "=true" })
	secrets := config.Select(corev1.SchemeGroupVersion.WithResource("secrets"), secret.Namespace, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, secret.Name).String()
	})
	c := &Controller{
		kubeClient:  config.KubeClient,
		dynamic:     config.Dynamic,
		recorder:    config.Recorder,
		apiServices: apiServices.GetStore(),
		lifetimes:   certs.DefaultLifetimes,
	}
	controller.ReportWatchErrors(apiServices, APIServices.GroupResource())
	controller.ReportWatchErrors(secrets, corev1.Resource("secrets"))
	c.Loop = controller.NewLoop(ctx, controller.Config[types.NamespacedName]{Name: ControllerName, Sync: c.syncHandler})
	theOne := func(*unstructured.Unstructured) []types.NamespacedName { return []types.NamespacedName{service} }
	err := errors.Join(
		secrets.SetTransform(withoutContent), // it is read when it is needed
		controller.Watch(ctx, c.Loop, controller.Source[*unstructured.Unstructured, types.NamespacedName]{
			Informer: cache.NewTypedSharedIndexInformer[*unstructured.Unstructured](apiServices), Keys: theOne,
		}),
		controller.Watch(ctx, c.Loop, controller.Source[*unstructured.Unstructured, types.NamespacedName]{
			Informer: cache.NewTypedSharedIndexInformer[*unstructured.Unstructured](secrets), Keys: theOne,
		}),
	)
	return c, err
}

// withoutContent keeps keys out of the cache, which only has to tell that there was a change.
func withoutContent(object any) (any, error) {
	if object, ok := object.(*unstructured.Unstructured); ok {
		object.SetManagedFields(nil)
		delete(object.Object, "data")
	}
	return object, nil
}

// idle is the controller of a process that works in another namespace.
type idle struct{}

// Run implements controller.Controller.
func (idle) Run(ctx context.Context, _ int) { <-ctx.Done() }

// Synced implements controller.Controller.
func (idle) Synced() []cache.DoneChecker { return nil }

// CheckSyncs implements controller.Controller.
func (idle) CheckSyncs() error { return nil }
