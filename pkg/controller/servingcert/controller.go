// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"cmp"
	"context"
	"errors"
	"time"

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

// LabelInject, with the value "true", makes the controller inject the caBundle.
const LabelInject = "millwright.dev/inject-ca"

// clusterDomain is that of nearly all clusters. The aggregation layer does not use names that end with it; direct callers may.
const clusterDomain = "cluster.local"

// APIServices configure where kube-apiserver finds an API, and which authority it trusts there.
var APIServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// DefaultFarmNamespace is where the API server of Llamas and the operator run unless Config sets other namespaces.
const DefaultFarmNamespace = "millwright-system"

// Names in the namespace of the farm, and the APIService that makes the controller work.
const (
	serviceName    = "farm-operator"
	servingName    = "farm-operator-serving"
	authorityName  = "farm-operator-ca"
	apiServiceName = "v1alpha.farm.example.com"
)

// Config is the configuration of a Controller. All fields are required except the namespaces.
type Config struct {
	KubeClient kubernetes.Interface
	Dynamic    dynamic.Interface
	// Select returns an informer of the objects that the options select. The caller of New starts it.
	Select   func(resource schema.GroupVersionResource, namespace string, options func(*metav1.ListOptions)) cache.SharedIndexInformer
	Recorder record.EventRecorder
	// Namespace to work in; "" for all.
	Namespace string
	// FarmNamespace is where the Service is, and the Secret that its servers read; "" for DefaultFarmNamespace.
	FarmNamespace string
	// OperatorNamespace is the operator's own, where the Secret of the authorities is wherever the server is; "" for DefaultFarmNamespace.
	OperatorNamespace string
}

// Controller manages the certificate.
type Controller struct {
	*controller.Loop[types.NamespacedName]

	kubeClient  kubernetes.Interface
	dynamic     dynamic.Interface
	recorder    record.EventRecorder
	apiServices cache.Store
	lifetimes   certs.Lifetimes
	// consistency has the writes of APIServices.
	consistency controller.ConsistencyStore[types.NamespacedName]

	// service is the Service of the certificate; serving is the Secret of the certificate, and authority that of the authorities.
	service   types.NamespacedName
	serving   types.NamespacedName
	authority types.NamespacedName
	names     certs.Names

	// conflict is the foreign Secret that was reported last. The one key is synced by one worker at a time.
	conflict types.UID
}

// New returns the controller; Run starts it.
func New(ctx context.Context, config Config) (controller.Controller, error) {
	namespace := cmp.Or(config.FarmNamespace, DefaultFarmNamespace)
	if config.Namespace != "" && config.Namespace != namespace {
		return idle{}, nil
	}
	apiServices := config.Select(APIServices, metav1.NamespaceAll, func(options *metav1.ListOptions) { options.LabelSelector = LabelInject + "=true" })
	c := &Controller{
		kubeClient:  config.KubeClient,
		dynamic:     config.Dynamic,
		recorder:    config.Recorder,
		apiServices: apiServices.GetStore(),
		lifetimes:   certs.DefaultLifetimes,
		service:     types.NamespacedName{Namespace: namespace, Name: serviceName},
		serving:     types.NamespacedName{Namespace: namespace, Name: servingName},
		authority:   types.NamespacedName{Namespace: cmp.Or(config.OperatorNamespace, DefaultFarmNamespace), Name: authorityName},
		// The last name is for a server on this machine.
		names: append(certs.ServiceNames(namespace, serviceName, clusterDomain), "localhost"),
	}
	c.Loop = controller.NewLoop(ctx, controller.Config[types.NamespacedName]{Name: ControllerName, Sync: c.syncHandler})
	err := c.watch(ctx, apiServices, APIServices)
	for _, secret := range []types.NamespacedName{c.authority, c.serving} {
		resource := corev1.SchemeGroupVersion.WithResource("secrets")
		informer := config.Select(resource, secret.Namespace, func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, secret.Name).String()
		})
		// The Secrets themselves are read when they are needed.
		err = errors.Join(err, informer.SetTransform(withoutContent), c.watch(ctx, informer, resource))
	}
	return c, err
}

// watch syncs the one key when an object of the informer changes.
func (c *Controller) watch(ctx context.Context, informer cache.SharedIndexInformer, resource schema.GroupVersionResource) error {
	controller.ReportWatchErrors(informer, resource.GroupResource())
	return controller.Watch(ctx, c.Loop, controller.Source[*unstructured.Unstructured, types.NamespacedName]{
		Informer: cache.NewTypedSharedIndexInformer[*unstructured.Unstructured](informer),
		Keys:     func(*unstructured.Unstructured) []types.NamespacedName { return []types.NamespacedName{c.service} },
	})
}

// withoutContent keeps private keys out of the cache, which only has to show that there was a change.
func withoutContent(object any) (any, error) {
	if object, ok := object.(*unstructured.Unstructured); ok {
		object.SetManagedFields(nil)
		delete(object.Object, "data")
	}
	return object, nil
}

// idle is the controller of a process with another --namespace.
type idle struct{}

// Run implements controller.Controller.
func (idle) Run(ctx context.Context, _ int) { <-ctx.Done() }

// Synced implements controller.Controller.
func (idle) Synced() []cache.DoneChecker { return nil }

// CheckSyncs implements controller.Controller.
func (idle) CheckSyncs() error { return nil }

// longestWait limits a timer: the clock may be set, and the machine may sleep.
const longestWait = 24 * time.Hour

// syncHandler executes the six steps of package certs once.
func (c *Controller) syncHandler(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	if !c.consistency.IsReady(key) {
		return controller.StaleCacheDelay, controller.ErrPostponed
	}
	targets, wanted, err := c.targets()
	if err != nil {
		return 0, err
	}
	if !wanted {
		expiration.Set(0)
		return 0, nil
	}
	// After the targets, and not from a cache; the authorities last: see package certs.
	var kept certs.Secrets
	if kept.Serving, err = c.secret(ctx, c.serving); err != nil {
		return 0, err
	}
	if kept.Authority, err = c.secret(ctx, c.authority); err != nil {
		return 0, err
	}
	state, err := certs.Decode(kept)
	if err != nil {
		return 0, c.reportConflict(kept.Foreign(), err)
	}
	c.conflict = ""
	observed := certs.Observed{State: state, Names: c.names, Lifetimes: c.lifetimes, Now: time.Now()}
	for _, target := range targets {
		observed.Targets = append(observed.Targets, target.Target)
	}
	plan := certs.Decide(observed)
	publishExpiration(state)
	// The two are independent: a certificate is issued even if an APIService cannot be written.
	written, err := c.store(ctx, kept, observed, plan)
	if err := errors.Join(c.inject(ctx, targets, plan.Inject, state.Bundle()), err); err != nil {
		return 0, err
	}
	if written {
		return controller.StaleCacheDelay, nil // the watch usually shows what was written earlier than that
	}
	return min(plan.RequeueAfter, longestWait), nil
}
