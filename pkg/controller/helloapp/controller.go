// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned"
	informers "millwright.dev/pkg/generated/informers/externalversions/apps/v1"
	listers "millwright.dev/pkg/generated/listers/apps/v1"
)

// ControllerName names the controller on the command line, in logs, metrics and events.
const ControllerName = "helloapp"

// FieldManager is the manager of the fields that the controller applies.
const FieldManager = "millwright-helloapp"

// Controller runs HelloApps as Deployments.
type Controller struct {
	*controller.Loop[cache.ObjectName]

	client     versioned.Interface
	kubeClient kubernetes.Interface
	recorder   record.EventRecorder

	appLister        listers.HelloAppLister
	deploymentLister appslisters.DeploymentLister
	serviceLister    corelisters.ServiceLister
	appStore         controller.VersionedStore
	deploymentStore  controller.VersionedStore
	serviceStore     controller.VersionedStore

	consistency controller.ConsistencyStore[cache.ObjectName]
	memories    controller.Memory[memory]
}

// New returns the controller; Run starts it. The informers of Deployments and Services need only the objects that
// controller.ManagedSelector selects.
func New(ctx context.Context, client versioned.Interface, kubeClient kubernetes.Interface, apps informers.TypedHelloAppInformer,
	deployments appsinformers.TypedDeploymentInformer, services coreinformers.TypedServiceInformer, recorder record.EventRecorder) (*Controller, error) {
	c := &Controller{
		client:           client,
		kubeClient:       kubeClient,
		recorder:         recorder,
		appLister:        apps.Lister(),
		deploymentLister: deployments.Lister(),
		serviceLister:    services.Lister(),
		appStore:         apps.Informer().GetStore(),
		deploymentStore:  deployments.Informer().GetStore(),
		serviceStore:     services.Informer().GetStore(),
	}
	controller.TrimCache(apps.Informer())
	controller.TrimCache(deployments.Informer(), AnnotationSpecHash, AnnotationGeneration)
	controller.TrimCache(services.Informer())
	controller.ReportWatchErrors(apps.Informer(), v1.Resource("helloapps"))
	controller.ReportWatchErrors(deployments.Informer(), appsv1.Resource("deployments"))
	controller.ReportWatchErrors(services.Informer(), corev1.Resource("services"))

	c.Loop = controller.NewLoop(ctx, controller.Config[cache.ObjectName]{
		Name: ControllerName, Sync: c.syncHandler, Queue: controller.NewNamespaceQueue(),
	})
	err := errors.Join(
		watch(ctx, c.Loop, apps.TypedInformer()),
		watch(ctx, c.Loop, deployments.TypedInformer()),
		watch(ctx, c.Loop, services.TypedInformer()),
	)
	if err != nil {
		return nil, err
	}
	publishMetrics(ctx, apps.Informer())
	return c, nil
}

// watch syncs the key of each object that changes. A HelloApp, its Deployment and its Service have one name, and so one key.
func watch[T interface {
	cache.Object
	metav1.Object
}](ctx context.Context, loop *controller.Loop[cache.ObjectName], informer cache.TypedSharedIndexInformer[T]) error {
	return controller.Watch(ctx, loop, controller.Source[T, cache.ObjectName]{
		Informer: informer,
		Keys:     func(object T) []cache.ObjectName { return []cache.ObjectName{cache.MetaObjectToName(object)} },
	})
}

// syncHandler brings Deployment and Service to the desired state, then shows in the status what exists.
func (c *Controller) syncHandler(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	// Checked before anything is read: later reads are at least as new.
	if !c.consistency.IsReady(key) {
		return controller.StaleCacheDelay, controller.ErrPostponed
	}
	o, err := c.gather(key)
	if err != nil || o == nil {
		return 0, err
	}
	r := &reconciler{Controller: c, key: key, observed: o}
	after, err := controller.Reconcile(ctx, r)
	return after, errors.Join(r.rejected, err)
}
