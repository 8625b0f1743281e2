// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	memories    memories
}

// New returns the controller; Run starts it. The informers of Deployments and Services need to see no others than those that
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

	c.Loop = controller.NewLoop(ctx, controller.Config[cache.ObjectName]{Name: ControllerName, Sync: c.syncHandler})
	err := errors.Join(
		controller.Watch(ctx, c.Loop, controller.Source[*v1.HelloApp, cache.ObjectName]{Informer: apps.TypedInformer(), Keys: keys[*v1.HelloApp]}),
		controller.Watch(ctx, c.Loop, controller.Source[*appsv1.Deployment, cache.ObjectName]{Informer: deployments.TypedInformer(), Keys: keys[*appsv1.Deployment]}),
		controller.Watch(ctx, c.Loop, controller.Source[*corev1.Service, cache.ObjectName]{Informer: services.TypedInformer(), Keys: keys[*corev1.Service]}),
	)
	if err != nil {
		return nil, err
	}
	publishMetrics(ctx, apps.Informer())
	return c, nil
}

// keys are the same for a HelloApp, its Deployment and its Service, whoever owns these: all have one name.
func keys[T metav1.Object](object T) []cache.ObjectName {
	return []cache.ObjectName{cache.MetaObjectToName(object)}
}

// syncHandler brings Deployment and Service to what the spec says, then shows in the status what there is.
func (c *Controller) syncHandler(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	// Asked before anything is read: what is read afterwards is at least as new.
	if !c.consistency.IsReady(key) {
		return controller.StaleCacheDelay, nil
	}
	o, err := c.gather(key)
	if err != nil || o == nil {
		return 0, err
	}
	bringUpAfter, err := c.bringUp(ctx, key, o)
	if errors.Is(err, errGoes) {
		return 0, nil
	}
	if o.refusal = controller.RejectionOf(err); err != nil && o.refusal == nil {
		return 0, err
	}
	o.now = time.Now()
	o.memory = c.memories.of(key)
	mirrorAfter, statusErr := c.apply(ctx, key, o, mirror(*o))
	if err != nil && statusErr == nil && o.refusal.IsPermanent() {
		return 0, controller.Permanent(err)
	}
	return soonest(bringUpAfter, mirrorAfter), errors.Join(err, statusErr)
}

// bringUp decides and applies, again where the live objects have to be looked at first. Each is looked at once at most.
func (c *Controller) bringUp(ctx context.Context, key cache.ObjectName, o *observed) (time.Duration, error) {
	for {
		after, err := c.apply(ctx, key, o, decide(*o))
		if !errors.Is(err, errDecideAnew) {
			return after, err
		}
	}
}

// gather reads the caches. It returns nil where there is nothing to decide.
func (c *Controller) gather(key cache.ObjectName) (*observed, error) {
	app, err := c.appLister.HelloApps(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.memories.forget(key)
		c.consistency.Clear(key)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o := &observed{app: app, memory: c.memories.of(key), now: time.Now()}
	if o.deployment, err = orNil(c.deploymentLister.Deployments(key.Namespace).Get(key.Name)); err != nil {
		return nil, err
	}
	if o.service, err = orNil(c.serviceLister.Services(key.Namespace).Get(key.Name)); err != nil {
		return nil, err
	}
	return o, nil
}

// lookAtApp reads the HelloApp from the API server, and asks to decide anew.
func (c *Controller) lookAtApp(ctx context.Context, key cache.ObjectName, o *observed) error {
	app, err := c.client.AppsV1().HelloApps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errGoes
	}
	if err != nil {
		return fmt.Errorf("reading HelloApp %s: %w", key, err)
	}
	o.app, o.appLive = app, true
	return errDecideAnew
}

// lookAtDeployment likewise.
func (c *Controller) lookAtDeployment(ctx context.Context, key cache.ObjectName, o *observed) error {
	deployment, err := orNil(c.kubeClient.AppsV1().Deployments(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("reading Deployment %s: %w", key, err)
	}
	o.deployment, o.deploymentLive = deployment, true
	if standingOf(o.app, deployment) == foreign {
		c.memories.update(key, func(memory *memory) { memory.foreignDeployment = time.Now() })
	}
	return errDecideAnew
}

// lookAtService likewise.
func (c *Controller) lookAtService(ctx context.Context, key cache.ObjectName, o *observed) error {
	service, err := orNil(c.kubeClient.CoreV1().Services(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("reading Service %s: %w", key, err)
	}
	o.service, o.serviceLive = service, true
	if standingOf(o.app, service) == foreign {
		c.memories.update(key, func(memory *memory) { memory.foreignService = time.Now() })
	}
	return errDecideAnew
}

// orNil turns the error that there is no such object into nil.
func orNil[T any](object *T, err error) (*T, error) {
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return object, nil
}

// soonest of two durations, of which zero is never.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
