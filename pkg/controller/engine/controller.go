// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
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
	"millwright.dev/pkg/controller/engine/parent"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/hook/credentials"
	"millwright.dev/pkg/objectcache"
	"millwright.dev/pkg/objectcache/objectwriter"
)

// EventSource is the source of the engine's events: that of Metacontroller, which users look for.
const EventSource = "metacontroller"

// Most workers wait for hooks, so there are workersPerWorker for each configured one. Of these a slow host occupies callsPerWorker with calls and
// waitingPerWorker with waiting for one: two such hosts leave workers for all others.
const (
	workersPerWorker = 8
	callsPerWorker   = 2
	waitingPerWorker = 1
)

// Definitions is the resource of CustomResourceDefinitions.
var Definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Config is what a Controller is made of.
type Config struct {
	// Name of the controller on the command line, in logs and in metrics.
	Name         string
	Declarations Declarations
	KubeClient   kubernetes.Interface
	RESTConfig   *rest.Config
	// Definitions has the metadata of CustomResourceDefinitions.
	Definitions cache.SharedIndexInformer
	Objects     *objectcache.Cache
	// Recorder has EventSource as its component.
	Recorder record.EventRecorder
	// Namespace of parents and children; "" for all.
	Namespace string
	// TargetSelector selects the declarations that are hosted; nil for all.
	TargetSelector labels.Selector
	// Workers for all declarations together; 0 for the number that each controller has.
	Workers int
	// BuiltIn returns the controller of Millwright that reconciles a resource, "" if there is none, and whether it runs. If that is not known yet,
	// known is false. nil if there is none for any resource.
	BuiltIn func(schema.GroupResource) (name string, on, known bool)
	// Hooks calls the hooks. Controllers in one process share it.
	Hooks *hook.Client
	// ApplyStrategy is how children are written where their declaration does not set it; "" for dynamic apply.
	ApplyStrategy v1alpha1.ApplyStrategy
	// FieldManager is the manager of the fields that are written by server-side apply; "" for DefaultFieldManager.
	FieldManager string
}

// DefaultFieldManager is the manager of the fields that are written by server-side apply, as in Metacontroller.
const DefaultFieldManager = "metacontroller"

// Controller hosts the declarations of one kind.
type Controller struct {
	*controller.Loop[parent.Key]
	Config

	writer *objectwriter.Writer
	// removeFinalizers removes the finalizer of a declaration from all parents of a type.
	removeFinalizers func(ctx context.Context, parents schema.GroupVersionResource, name string) error
	// isDefined reports whether a CustomResourceDefinition defines a resource.
	isDefined func(schema.GroupResource) (bool, error)
	// newParentController returns what syncs the parents of a declaration.
	newParentController func(parent.Config) (parentController, *parent.Problem, error)

	standby *standby
	// credentials live as long as Run.
	credentials *credentials.Source

	mu sync.Mutex
	// running are the hosted declarations by UID, and states what is known of each declaration by name.
	running map[types.UID]parentController
	states  map[string]*state
}

// parentController syncs the parents of one declaration. It is a parent.Controller except in tests.
type parentController interface {
	Sync(ctx context.Context, key parent.Key) (time.Duration, error)
	// Start starts syncing parents, Pause stops that until the next Start, and Stop ends it.
	Start() (parents int)
	Started() bool
	Pause()
	Stop()
	Health() parent.Health
	// AnyFinalizer reports whether a parent has the finalizer of the declaration.
	AnyFinalizer() bool
	SetMetadata(d *parent.Declaration) error
	SetOverlap(overlap parent.Overlap)
	// Defined takes over that the definition of a resource was added, changed or deleted, or its status was, and Redefined that it has another spec.
	Defined(of schema.GroupResource)
	Redefined(of schema.GroupResource)
}

// declarationKey returns the key of a declaration itself, as opposed to one of its parents.
func (c *Controller) declarationKey(name string) parent.Key {
	return parent.Key{Resource: c.Declarations.Resource(), Name: name}
}

func newParentController(config parent.Config) (parentController, *parent.Problem, error) {
	c, problem, err := parent.New(config)
	if problem != nil || err != nil {
		return nil, problem, err
	}
	return c, nil, nil
}

// NewHookClient returns a client of hooks for that number of configured workers. answerMemory bounds the memory of all answers of hooks in flight, in
// bytes; 0 for the default.
func NewHookClient(workers int, answerMemory int64) *hook.Client {
	return hook.NewClient(hook.Options{AnswerMemory: answerMemory, PerHost: callsPerWorker * workers, WaitingPerHost: waitingPerWorker * workers})
}

// New returns the controller; Run starts it.
func New(ctx context.Context, config Config) (*Controller, error) {
	if config.TargetSelector == nil {
		config.TargetSelector = labels.Everything()
	}
	config.FieldManager = cmp.Or(config.FieldManager, DefaultFieldManager)
	writer, err := objectwriter.New(config.RESTConfig)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(config.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("making a client for the metadata of parents: %w", err)
	}
	c := &Controller{
		Config:              config,
		writer:              writer,
		newParentController: newParentController,
		running:             map[types.UID]parentController{},
		states:              map[string]*state{},
	}
	kind := config.Declarations.Kind()
	c.removeFinalizers = parent.FinalizerRemover{Kind: kind, Metadata: metadataClient, Writer: writer, Namespace: config.Namespace}.Remove
	c.isDefined = definedIn(config.Definitions)
	c.standby = &standby{kind: kind, acquire: config.Objects.Acquire, requests: c.standbyRequests,
		held: map[types.UID]heldWatches{}, ready: make(chan struct{})}
	controller.ReportWatchErrors(config.Declarations.Informer(), config.Declarations.Resource())
	controller.ReportWatchErrors(config.Definitions, Definitions.GroupResource())
	c.Loop = controller.NewLoop(ctx, controller.Config[parent.Key]{
		Name:  config.Name,
		Sync:  c.syncHandler,
		Queue: controller.NewFairQueue(func(k parent.Key) types.UID { return k.Controller }),
	})
	on := handlers{keys: c.affectedBy, observed: c.standby.observe, deleted: c.standby.release}
	if err := config.Declarations.watch(ctx, c.Loop, on); err != nil {
		return nil, err
	}
	if err := c.watchDefinitions(); err != nil {
		return nil, err
	}
	config.Declarations.count(ctx, c.conditionsOf)
	return c, nil
}

// Run hosts declarations until the context ends.
func (c *Controller) Run(ctx context.Context, workers int) {
	c.standby.end()
	if c.Workers > 0 {
		workers = c.Workers
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c.credentials = credentials.New(running, c.KubeClient)
	c.Loop.Run(ctx, workersPerWorker*workers)
	c.stopAll()
	stop()
	c.credentials.Wait()
}

func (c *Controller) syncHandler(ctx context.Context, k parent.Key) (time.Duration, error) {
	if k.Controller == "" {
		return c.syncDeclaration(ctx, k.Name)
	}
	c.mu.Lock()
	parents := c.running[k.Controller]
	c.mu.Unlock()
	if parents == nil {
		return 0, nil
	}
	return parents.Sync(ctx, k)
}
