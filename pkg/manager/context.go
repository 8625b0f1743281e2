// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
	"millwright.dev/pkg/objectcache"
)

// informersTimeout is how long informers may take to stop.
const informersTimeout = 500 * time.Millisecond

// Context is what the constructor of one controller builds from.
type Context struct {
	// Client and KubeClient name the controller in their User-Agent. They refuse to write while this process does not lead.
	Client     versioned.Interface
	KubeClient kubernetes.Interface
	// Informers of our own kinds, shared by all controllers and limited to --namespace. Objects come without managedFields.
	Informers externalversions.SharedInformerFactory
	// KubeInformers are the same for the built-in kinds, and only for objects with the label app.kubernetes.io/managed-by=millwright.
	KubeInformers informers.SharedInformerFactory
	// Recorder names the controller as the source of its events.
	Recorder record.EventRecorder

	// Objects of any kind, shared by all controllers, and not limited to Namespace.
	Objects *objectcache.Cache
	// Metadata of objects of any kind, without the rest of them.
	Metadata metadatainformer.SharedInformerFactory
	// Select returns an informer of its own for those objects of a kind that the options select, in one namespace or in all.
	Select func(resource schema.GroupVersionResource, namespace string, options func(*metav1.ListOptions)) cache.SharedIndexInformer
	// RESTConfig is what Client and KubeClient are made of.
	RESTConfig *rest.Config
	// Events are what Recorder records to, for a controller whose events need another source name.
	Events *controller.Events
	// Namespace to work in; "" for all.
	Namespace string
	// OperatorNamespace is the one that this process runs in; "" where it is not known.
	OperatorNamespace string
	// Running are the names of the controllers of this process, and LeaseNamespace is where its Lease is; "" if it has none.
	Running        []string
	LeaseNamespace string
}

// shared is what the contexts of all controllers have in common.
type shared struct {
	clients       clientBuilder
	mayWrite      func() error
	informers     externalversions.SharedInformerFactory
	kubeInformers informers.SharedInformerFactory
	undecodable   *undecodable
	events        *controller.Events
	metadata      metadatainformer.SharedInformerFactory
	objects       *objectcache.Cache
	dynamic       dynamic.Interface
	selections    []dynamicinformer.DynamicSharedInformerFactory
	namespace     string
	// own is the namespace that this process runs in; "" where it is not known.
	own string
	// running are the names of the controllers of this process, and leaseNamespace is where its Lease is, "" if it has none.
	running        []string
	leaseNamespace string
}

// newShared starts posting events, until the context ends. Informers are started by startInformers.
func newShared(ctx context.Context, config *Config, mayWrite func() error) (*shared, error) {
	client, kubeClient, err := config.clients.informerClients("informers", mayWrite)
	if err != nil {
		return nil, err
	}
	_, eventClient, err := config.clients.clients("events", mayWrite)
	if err != nil {
		return nil, err
	}
	objects, err := objectcache.New(ctx, config.clients.informerConfig("objects", mayWrite), objectcache.Options{KeepManagedFields: config.KeepManagedFields})
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(config.clients.informerConfig("metadata", mayWrite))
	if err != nil {
		return nil, fmt.Errorf("making the client of metadata: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(config.clients.informerConfig("selections", mayWrite))
	if err != nil {
		return nil, fmt.Errorf("making the client of selected objects: %w", err)
	}
	events := controller.StartEvents(ctx, eventClient)
	undecodable := newUndecodable(events.Recorder(scheme.Scheme, "millwright"))
	return &shared{
		clients:        config.clients,
		mayWrite:       mayWrite,
		metadata:       metadatainformer.NewSharedInformerFactoryWithOptions(metadataClient, 0, metadatainformer.WithTransform(dropManagedFields)),
		objects:        objects,
		dynamic:        dynamicClient,
		namespace:      config.Namespace,
		own:            config.OperatorNamespace,
		running:        names(config.Controllers),
		leaseNamespace: config.leaseNamespace(),
		informers: &ownInformers{
			SharedInformerFactory: externalversions.NewSharedInformerFactoryWithOptions(client, 0,
				externalversions.WithNamespace(config.Namespace),
				externalversions.WithTransform(dropManagedFields),
				externalversions.WithInformerName(informerName("millwright"))),
			namespace: config.Namespace,
			report: func(object runtime.Object, err error, decoded func() bool) {
				undecodable.report(ctx, object, err, decoded)
			},
		},
		kubeInformers: informers.NewSharedInformerFactoryWithOptions(kubeClient, 0,
			informers.WithNamespace(config.Namespace),
			informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = controller.ManagedSelector }),
			informers.WithTransform(dropManagedFields),
			informers.WithInformerName(informerName("millwright-kube"))),
		undecodable: undecodable,
		events:      events,
	}, nil
}

// informerName names the informers in their metrics. A name is given once in a process; where several managers run in one,
// as in tests, the informers of the others have no metrics.
func informerName(name string) *cache.InformerName {
	registered, err := cache.NewInformerName(name)
	if err != nil {
		return nil
	}
	return registered
}

// contextFor the controller of that name.
func (s *shared) contextFor(name string) (*Context, error) {
	client, kubeClient, err := s.clients.clients(name, s.mayWrite)
	if err != nil {
		return nil, err
	}
	return &Context{
		Client:            client,
		KubeClient:        kubeClient,
		Informers:         s.informers,
		KubeInformers:     s.kubeInformers,
		Recorder:          s.events.Recorder(scheme.Scheme, name),
		Metadata:          s.metadata,
		Objects:           s.objects,
		Select:            s.selectObjects,
		RESTConfig:        s.clients.restConfig(name, s.mayWrite),
		Events:            s.events,
		Namespace:         s.namespace,
		OperatorNamespace: s.own,
		Running:           s.running,
		LeaseNamespace:    s.leaseNamespace,
	}, nil
}

// startInformers starts those that do not run yet. They run until the context ends.
func (s *shared) startInformers(ctx context.Context) {
	s.informers.StartWithContext(ctx)
	s.kubeInformers.StartWithContext(ctx)
	s.metadata.Start(ctx.Done())
	for _, selection := range s.selections {
		selection.Start(ctx.Done())
	}
}

// joinInformers returns when all have stopped, after their context has ended.
func (s *shared) joinInformers(ctx context.Context) {
	joins := []func(){s.informers.Shutdown, s.kubeInformers.Shutdown, s.metadata.Shutdown, s.objects.Wait}
	for _, selection := range s.selections {
		joins = append(joins, selection.Shutdown)
	}
	joinAll(ctx, joins...)
}

// joinAll waits with a limit: a reflector whose API server refuses connections sleeps for up to a minute, also after its context
// has ended. It has nothing to finish.
func joinAll(ctx context.Context, joins ...func()) {
	joined := make(chan struct{})
	go func() {
		for _, join := range joins {
			join()
		}
		close(joined)
	}()
	select {
	case <-joined:
	case <-time.After(informersTimeout):
		klog.FromContext(ctx).V(2).Info("Some informers have not stopped", "timeout", informersTimeout)
	}
}

// dropManagedFields halves what a cache holds. No controller reads them.
func dropManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}
