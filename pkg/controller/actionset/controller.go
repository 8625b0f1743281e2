// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned"
	informers "millwright.dev/pkg/generated/informers/externalversions/cr/v1alpha1"
	listers "millwright.dev/pkg/generated/listers/cr/v1alpha1"
	"millwright.dev/pkg/inflight"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/function"
)

const (
	// ControllerName names the controller on the command line, in logs and in metrics.
	ControllerName = "actionset"
	// EventSource is the source of its events: that of Kanister, which users look for.
	EventSource = "Kanister Controller"

	// maxLargeSyncs is the maximum number of ActionSets that are synced at a time which are large, or read much: each may take tens of MiB, or seconds. Those
	// in one namespace have fewer. This and the next limit are for the memory limit of the shipped Deployment; see
	// [inflight.AtMostForMemory].
	maxLargeSyncs = 4
	// maxDecoding is the maximum number of large Blueprints that these decode at a time, one of them in a namespace. One of 1.5 MB may take 130 MiB meanwhile.
	maxDecoding = 2
)

// Config is what a Controller is made of.
type Config struct {
	Client     versioned.Interface
	KubeClient kubernetes.Interface
	// RESTConfig is for objects of any kind, and for streams of commands.
	RESTConfig *rest.Config
	ActionSets informers.TypedActionSetInformer
	Blueprints informers.TypedBlueprintInformer
	// Recorder has EventSource as its component.
	Recorder record.EventRecorder
	// ServiceAccount of the Pods of phases if the Blueprint names none; "" for the default of the API server.
	ServiceAccount string
	// Namespace is the one whose ActionSets are run; "" for those of all namespaces.
	Namespace string
	// OperatorNamespace is the namespace of this process, which is closed to phases; "" if it is not known.
	OperatorNamespace string
}

// reach limits where phases work.
func (c *Config) reach() phase.Reach {
	return phase.Reach{Operator: c.OperatorNamespace, Served: c.Namespace}
}

// Controller runs ActionSets.
type Controller struct {
	*controller.Loop[cache.ObjectName]
	Config

	sets       listers.ActionSetLister
	blueprints listers.BlueprintLister
	setStore   controller.VersionedStore
	dynamic    dynamic.Interface

	functions *function.Functions
	// stopFunctions ends what the functions have started.
	stopFunctions context.CancelFunc
	// executor is the identity of this process, which starts phases.
	executor string

	written   controller.ConsistencyStore[cache.ObjectName]
	statusAPI *statusAPI
	memories  controller.Memory[memory]
	keptRuns  keptRuns
	// largeSyncs are the turns of ActionSets that are large, or read much.
	largeSyncs *turns
	// largeSubjects are those that have turned out to be large; their keys are of type subjectKey.
	largeSubjects *lru.Cache
	// decoding limits the decoding of large Blueprints. Its keys are namespaces.
	decoding *inflight.Limit[string]
	// lostSnapshots are those that may be left of ActionSets that are gone.
	lostSnapshots lostSnapshots
	// exclusion lets one sync run alone.
	exclusion *exclusion
	// added are the Blueprints for which the event Added was recorded.
	added blueprintSet
	// leads reports whether this process is the leader.
	leads atomic.Bool
}

// New returns the controller; Run starts it.
func New(ctx context.Context, config Config) (*Controller, error) {
	objects, err := dynamic.NewForConfig(phase.BoundObjects(config.RESTConfig))
	if err != nil {
		return nil, fmt.Errorf("making the client of all kinds: %w", err)
	}
	c := &Controller{
		Config:        config,
		sets:          config.ActionSets.Lister(),
		blueprints:    config.Blueprints.Lister(),
		setStore:      config.ActionSets.Informer().GetStore(),
		dynamic:       objects,
		executor:      string(uuid.NewUUID()),
		statusAPI:     newStatusAPI(config.KubeClient.Discovery()),
		keptRuns:      keptRuns{most: inflight.ForMemory(maxKept)},
		largeSubjects: lru.New(maxLargeSubjects),
		decoding:      inflight.NewLimit[string](1, inflight.AtMostForMemory(maxDecoding)),
		exclusion:     newExclusion(),
	}
	controller.TrimCacheOf(config.ActionSets.Informer(), trimSet)
	controller.TrimCacheOf(config.Blueprints.Informer(), trimBlueprint)
	controller.ReportWatchErrors(config.ActionSets.Informer(), v1alpha1.Resource("actionsets"))
	controller.ReportWatchErrors(config.Blueprints.Informer(), v1alpha1.Resource("blueprints"))

	c.Loop = controller.NewLoop(ctx, controller.Config[cache.ObjectName]{
		Name: ControllerName, Sync: c.syncHandler,
		// Many ActionSets of one namespace do not delay those of another one. Syncs that take long do, if they have all workers.
		Queue: controller.NewFairQueue(func(key cache.ObjectName) string { return key.Namespace }),
	})
	ofNamespace, largeSyncs := inflight.Shared(inflight.AtMostForMemory(maxLargeSyncs))
	c.largeSyncs = newTurns(ofNamespace, largeSyncs, c.Enqueue)
	functionsCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stopFunctions = stop
	c.functions = function.New(functionsCtx, phase.Environment{
		Client: config.KubeClient, Dynamic: objects, RESTConfig: config.RESTConfig,
		ServiceAccount: config.ServiceAccount, Reach: config.reach(),
		Wake: func(id phase.ID) { c.Enqueue(cache.NewObjectName(id.Namespace, id.Name)) },
	})
	err = errors.Join(
		controller.Watch(ctx, c.Loop, controller.Source[*v1alpha1.ActionSet, cache.ObjectName]{
			Informer: config.ActionSets.TypedInformer(),
			Keys: func(set *v1alpha1.ActionSet) []cache.ObjectName {
				return []cache.ObjectName{cache.MetaObjectToName(set)}
			},
			Deleted: func(set *v1alpha1.ActionSet, _ bool) {
				if c.leads.Load() {
					c.lostSnapshots.add(set)
				}
			},
		}),
		controller.Watch(ctx, c.Loop, controller.Source[*v1alpha1.Blueprint, cache.ObjectName]{
			Informer: config.Blueprints.TypedInformer(),
			// A change of a Blueprint does not change a run, which has a snapshot.
			Keys:     func(*v1alpha1.Blueprint) []cache.ObjectName { return nil },
			Observed: c.recordAdded,
			Deleted:  func(b *v1alpha1.Blueprint, _ bool) { c.added.remove(b.UID) },
		}),
	)
	if err != nil {
		stop()
		return nil, err
	}
	publishMetrics(ctx, config.ActionSets.Informer())
	return c, nil
}

// Run runs ActionSets until the context ends. What phases have started in this process ends after the workers.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer c.functions.Wait()
	defer c.stopFunctions()
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() {
		c.statusAPI.run(klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), ControllerName)), c.Enqueue)
	})
	c.leads.Store(ctx.Err() == nil)
	c.recordAllAdded(ctx)
	c.Loop.Run(ctx, workers)
}

// recordAdded records once that the leader has observed a Blueprint.
func (c *Controller) recordAdded(b *v1alpha1.Blueprint) {
	if c.leads.Load() && c.added.add(b.UID) {
		c.Recorder.Event(b, corev1.EventTypeNormal, "Added", "Added blueprint "+b.Name)
	}
}

// recordAllAdded records the Blueprints that were observed before this process led. The others are recorded when they are observed.
func (c *Controller) recordAllAdded(ctx context.Context) {
	known, err := c.blueprints.List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to list Blueprints")
	}
	for _, b := range known {
		c.recordAdded(b)
	}
}

// syncHandler brings one ActionSet as far as it goes without waiting.
func (c *Controller) syncHandler(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	running, err := c.exclusion.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer running.end()
	// Asked before anything is read: what is read afterwards is at least as new.
	if !c.written.IsReady(key) {
		return controller.StaleCacheDelay, controller.ErrPostponed
	}
	set, err := c.sets.ActionSets(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		c.written.Clear(key)
		c.forget(key)
		c.keptRuns.keep(key, 0, false)
		c.largeSyncs.leave(key)
		return c.sweepGone(ctx, key)
	case err != nil:
		return 0, err
	}
	if isHeader(set) && hasLongEnded(set) && c.memories.Get(key, set.UID).snapshot == nil && len(c.functions.Found(key.Namespace, key.Name)) == 0 {
		c.largeSyncs.leave(key)
		return 0, nil // nothing is left to do, so it need not be read
	}
	s := &syncer{Controller: c, key: key, running: running, large: isHeader(set), urgency: urgencyOf(set)}
	ctx, s.asked = phase.CountReads(ctx)
	return s.sync(ctx, set)
}

// syncer is one sync of one ActionSet.
type syncer struct {
	*Controller
	key    cache.ObjectName
	memory *memory
	// large: the cache has only a header of the ActionSet.
	large   bool
	urgency urgency
	// memorySize is about how much memory a large ActionSet takes, in bytes.
	memorySize int
	// asked is what this sync asks of the API server, as far as that may be expensive. Polls are not counted: they have a pace.
	asked *phase.Reads
	// running lets this sync be alone.
	running *runningSync
	// tried: a phase was tried alone.
	tried bool
	// hasTurn reports whether this sync has one of the largeSyncs.
	hasTurn bool
	o       observed
	// reads are for the asks of the last decision.
	reads reads
	// plan is the last one.
	plan  plan
	share share
	// problem is why something could not be looked up.
	problem error
}

// sync brings the ActionSet as far as it goes without waiting. Its error wraps errAwaitsTurn if it has to wait for a turn first.
func (s *syncer) sync(ctx context.Context, cached *v1alpha1.ActionSet) (after time.Duration, err error) {
	began := time.Now()
	defer func() { s.endTurn(err) }()
	set, err := s.gatherSet(ctx, cached)
	if err != nil || set == nil {
		return 0, err
	}
	s.memory, _ = s.memories.Of(s.key, set.UID)
	s.sweepOthers(ctx, set.UID)
	if err := s.gather(ctx, set); err != nil {
		return 0, err
	}
	if needsStatus(s.o) && s.statusAPI.holds(s.key) {
		s.recordHeld()
		return 0, nil
	}
	s.memory.heldRecorded = false
	aloneAfter, err := s.tryAlone(ctx)
	if err != nil {
		return 0, err
	}
	after, err = s.run(ctx)
	return controller.EarliestDelay(s.bound(after, time.Since(began)), aloneAfter), err
}

// tryAlone waits until no other sync runs if a phase is to be tried alone. If that is not so soon, after is when to try again, and the phase waits.
func (s *syncer) tryAlone(ctx context.Context) (after time.Duration, err error) {
	action := suspectAction(s.o)
	if action == nil {
		return 0, nil
	}
	alone, after, err := s.running.goAlone(ctx)
	if alone {
		s.o.alone = action
	}
	s.o.now = time.Now()
	return after, err
}

// run decides and acts until nothing is left to do without waiting.
func (s *syncer) run(ctx context.Context) (time.Duration, error) {
	_, err := controller.Reconcile(ctx, s)
	if errors.Is(err, errNotActed) {
		err = nil
	}
	after := s.endShare(s.plan.RequeueAfter, err != nil || s.o.snapshotUnread())
	after = controller.EarliestDelay(after, s.memory.cleanUp.retryAfter(s.o.now, s.goesOn()))
	if err == nil && (s.plan.retry || s.share.continues) {
		err = s.problem
		if err == nil && s.plan.retry {
			err = errors.New("what to do next could not be decided")
		}
	}
	err = errors.Join(append(s.share.failures, err)...)
	if r := s.memory.round; err == nil && (s.share.continues || r != nil && r.failed) {
		err = errIncomplete
	}
	return after, err
}

// recordHeld records once why the ActionSet waits.
func (s *syncer) recordHeld() {
	if !s.memory.heldRecorded {
		s.memory.heldRecorded = true
		s.recordWarning(reasonStatusNotServed, noStatusAPI)
	}
}
