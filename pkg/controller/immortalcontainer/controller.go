// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned"
	informers "millwright.dev/pkg/generated/informers/externalversions/immortalcontainers/v1alpha1"
	listers "millwright.dev/pkg/generated/listers/immortalcontainers/v1alpha1"
)

// ControllerName names the controller on the command line, in logs, metrics and events.
const ControllerName = "immortalcontainer"

// Controller keeps the Pods of ImmortalContainers alive.
type Controller struct {
	*controller.Loop[cache.ObjectName]

	client     versioned.Interface
	kubeClient kubernetes.Interface
	recorder   record.EventRecorder

	containerLister listers.ImmortalContainerLister
	podLister       corelisters.PodLister
	containerStore  controller.VersionedStore
	podStore        controller.VersionedStore

	consistency controller.ConsistencyStore[cache.ObjectName]
	memories    memories
}

// New returns the controller; Run starts it. The Pod informer needs only the Pods that controller.ManagedSelector selects. Both
// informers must not be shared with other controllers: they hold only what this one needs.
func New(ctx context.Context, client versioned.Interface, kubeClient kubernetes.Interface,
	containers informers.TypedImmortalContainerInformer, pods coreinformers.TypedPodInformer, recorder record.EventRecorder) (*Controller, error) {
	c := &Controller{
		client:          client,
		kubeClient:      kubeClient,
		recorder:        recorder,
		containerLister: containers.Lister(),
		podLister:       pods.Lister(),
		containerStore:  containers.Informer().GetStore(),
		podStore:        pods.Informer().GetStore(),
	}
	controller.TrimCacheOf(containers.Informer(), trimContainer)
	controller.TrimCacheOf(pods.Informer(), trimPod)
	controller.ReportWatchErrors(containers.Informer(), v1alpha1.Resource("immortalcontainers"))
	controller.ReportWatchErrors(pods.Informer(), corev1.Resource("pods"))

	c.Loop = controller.NewLoop(ctx, controller.Config[cache.ObjectName]{
		Name: ControllerName, Sync: c.syncHandler, Queue: controller.NewNamespaceQueue(),
	})
	err := errors.Join(
		controller.Watch(ctx, c.Loop, controller.Source[*v1alpha1.ImmortalContainer, cache.ObjectName]{
			Informer: containers.TypedInformer(),
			Keys: func(container *v1alpha1.ImmortalContainer) []cache.ObjectName {
				return []cache.ObjectName{cache.MetaObjectToName(container)}
			},
		}),
		controller.Watch(ctx, c.Loop, controller.Source[*corev1.Pod, cache.ObjectName]{
			Informer: pods.TypedInformer(),
			Keys:     podKeys,
			Observed: c.podObserved,
			Deleted:  c.podDeleted,
		}),
	)
	if err != nil {
		return nil, err
	}
	publishMetrics(ctx, containers.Informer())
	return c, nil
}

// podKeys returns the key of the ImmortalContainer whose Pod has this name. The owner of the Pod does not matter.
func podKeys(pod *corev1.Pod) []cache.ObjectName {
	name, ok := containerName(pod.Name)
	if !ok {
		return nil
	}
	return []cache.ObjectName{cache.NewObjectName(pod.Namespace, name)}
}

// podObserved remembers that a Pod is in our watch.
func (c *Controller) podObserved(pod *corev1.Pod) {
	for _, key := range podKeys(pod) {
		c.memories.watched(key, pod)
	}
}

// podDeleted remembers that a Pod is gone from our watch, and whether that proves that it is gone: a Pod that was not
// terminating may only have lost the label by which we watch.
func (c *Controller) podDeleted(pod *corev1.Pod, final bool) {
	for _, key := range podKeys(pod) {
		c.memories.unwatched(key, pod, final && pod.DeletionTimestamp != nil)
	}
}

// syncHandler gathers, decides and applies.
func (c *Controller) syncHandler(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	// Checked before anything is read: later reads are at least as new.
	if !c.consistency.IsReady(key) {
		return controller.StaleCacheDelay, controller.ErrPostponed
	}
	o, err := c.gather(key)
	if err != nil || o == nil {
		return 0, err
	}
	return controller.Reconcile(ctx, &reconciler{Controller: c, key: key, observed: o})
}
