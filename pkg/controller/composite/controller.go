// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned"
	informers "millwright.dev/pkg/generated/informers/externalversions/metacontroller/v1alpha1"
	listers "millwright.dev/pkg/generated/listers/metacontroller/v1alpha1"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/hook/credentials"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/objectcache/objectwriter"
)

const (
	// ControllerName names the controller on the command line, in logs and in metrics.
	ControllerName = "compositecontroller"
	// EventSource is the source of its events: the one that users of Metacontroller look for.
	EventSource = "metacontroller"
)

// Most workers wait for hooks, so there are workersPerWorker for each that was asked for. Of these a slow host holds callsPerWorker by
// calls and waitingPerWorker by waiting for one: two such hosts leave room for all others.
const (
	workersPerWorker = 8
	callsPerWorker   = 2
	waitingPerWorker = 1
)

var (
	compositeControllers = v1alpha1.Resource("compositecontrollers")
	// Definitions are CustomResourceDefinitions.
	Definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// Config is what a Controller is made of.
type Config struct {
	Client      versioned.Interface
	KubeClient  kubernetes.Interface
	RESTConfig  *rest.Config
	Controllers informers.TypedCompositeControllerInformer
	// Definitions has the metadata of Definitions.
	Definitions cache.SharedIndexInformer
	Objects     *objectcache.Cache
	// Recorder has EventSource as its component.
	Recorder record.EventRecorder
	// Namespace to work in; "" for all.
	Namespace string
	// TargetSelector says which CompositeControllers are served; nil for all.
	TargetSelector labels.Selector
	// Workers for all CompositeControllers together; 0 for as many as any controller has.
	Workers int
	// BuiltIn returns which controller of Millwright serves a resource, "" if none ever does, and whether it runs. Where that is not known
	// yet, known is false. nil where none does.
	BuiltIn func(schema.GroupResource) (name string, on, known bool)
	// AnswerMemory bounds the memory of all answers of hooks in flight, in bytes; 0 for the default.
	AnswerMemory int64
}

// Controller serves CompositeControllers.
type Controller struct {
	*controller.Loop[key]
	Config

	lister   listers.CompositeControllerLister
	writer   *objectwriter.Writer
	metadata metadata.Interface

	standby *standby
	// These two live as long as Run.
	hooks       *hook.Client
	credentials *credentials.Source

	mu sync.Mutex
	// hosted are the CompositeControllers that are served, by UID, and served those by name of which something is known.
	hosted map[types.UID]*hosted
	served map[string]*service
}

// key is what is synced: a parent of a CompositeController, or with controller "" the CompositeController itself.
type key struct {
	controller      types.UID
	resource        schema.GroupResource
	namespace, name string
}

func (k key) String() string {
	name := k.resource.String() + " " + k.name
	if k.namespace != "" {
		name = k.resource.String() + " " + k.namespace + "/" + k.name
	}
	return name
}

func controllerKey(name string) key { return key{resource: compositeControllers, name: name} }

// New returns the controller; Run starts it.
func New(ctx context.Context, config Config) (*Controller, error) {
	if config.TargetSelector == nil {
		config.TargetSelector = labels.Everything()
	}
	writer, err := objectwriter.New(config.RESTConfig)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(config.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("making a client for the metadata of parents: %w", err)
	}
	c := &Controller{
		Config:   config,
		lister:   config.Controllers.Lister(),
		writer:   writer,
		metadata: metadataClient,
		hosted:   map[types.UID]*hosted{},
		served:   map[string]*service{},
	}
	c.standby = &standby{acquire: config.Objects.Acquire, requests: c.standbyRequests, warm: map[types.UID]warm{}, ready: make(chan struct{})}
	controller.ReportWatchErrors(config.Controllers.Informer(), compositeControllers)
	controller.ReportWatchErrors(config.Definitions, Definitions.GroupResource())
	c.Loop = controller.NewLoop(ctx, controller.Config[key]{
		Name:  ControllerName,
		Sync:  c.syncHandler,
		Queue: controller.NewFairQueue(func(k key) types.UID { return k.controller }),
	})
	err = controller.Watch(ctx, c.Loop, controller.Source[*v1alpha1.CompositeController, key]{
		Informer: config.Controllers.TypedInformer(),
		Keys:     c.concernedBy,
		Observed: c.standby.observe,
		Deleted:  func(cc *v1alpha1.CompositeController, _ bool) { c.standby.release(cc.UID) },
	})
	if err != nil {
		return nil, err
	}
	if err := c.watchDefinitions(); err != nil {
		return nil, err
	}
	publishMetrics(ctx, config.Controllers.Informer())
	return c, nil
}

// Run serves CompositeControllers until the context ends.
func (c *Controller) Run(ctx context.Context, workers int) {
	c.standby.end()
	if c.Workers > 0 {
		workers = c.Workers
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c.credentials = credentials.New(running, c.KubeClient)
	c.hooks = hook.NewClient(hook.Options{AnswerMemory: c.AnswerMemory, PerHost: callsPerWorker * workers, WaitingPerHost: waitingPerWorker * workers})
	c.Loop.Run(ctx, workersPerWorker*workers)
	c.closeAll()
	stop()
	c.credentials.Wait()
}

func (c *Controller) syncHandler(ctx context.Context, k key) (time.Duration, error) {
	if k.controller == "" {
		return c.syncController(ctx, k)
	}
	return c.syncParent(ctx, k)
}
