// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/generated/clientset/versioned"
	informers "millwright.dev/pkg/generated/informers/externalversions/useless/v1alpha1"
)

// ControllerName names the controller on the command line, in logs, metrics and events.
const ControllerName = "machine"

// Controller keeps the switches of Machines down.
type Controller struct {
	*controller.Loop[cache.ObjectName]

	client   versioned.Interface
	recorder record.EventRecorder

	// The caches, by their indexes and as stores that know how far they are.
	machines cache.Indexer
	switches cache.Indexer

	switchSets   *switchSets
	labelChanges labelChanges
	consistency  controller.ConsistencyStore[cache.ObjectName]
	selectors    selectors
	memory       memory
}

// New returns the controller; Run starts it.
func New(ctx context.Context, client versioned.Interface, machines informers.TypedMachineInformer, switches informers.TypedSwitchInformer,
	recorder record.EventRecorder) (*Controller, error) {
	c := newController(client, recorder, machines.Informer().GetIndexer(), switches.Informer().GetIndexer())
	controller.TrimCache(machines.Informer())
	controller.TrimCache(switches.Informer())
	controller.ReportWatchErrors(machines.Informer(), v1alpha1.Resource("machines"))
	controller.ReportWatchErrors(switches.Informer(), v1alpha1.Resource("switches"))

	c.Loop = controller.NewLoop(ctx, controller.Config[cache.ObjectName]{
		Name: ControllerName, Sync: c.syncHandler, Queue: controller.NewNamespaceQueue(),
	})
	err := errors.Join(
		machines.Informer().AddIndexers(machineIndexers()),
		switches.Informer().AddIndexers(switchIndexers()),
		controller.Watch(ctx, c.Loop, controller.Source[*v1alpha1.Machine, cache.ObjectName]{
			Informer: machines.TypedInformer(),
			Changed:  func(before, after *v1alpha1.Machine) []cache.ObjectName { return c.machineChanged(ctx, before, after) },
		}),
		controller.Watch(ctx, c.Loop, controller.Source[*v1alpha1.Switch, cache.ObjectName]{
			Informer: switches.TypedInformer(),
			Changed:  func(before, after *v1alpha1.Switch) []cache.ObjectName { return c.switchChanged(ctx, before, after) },
			Deleted:  func(sw *v1alpha1.Switch, _ bool) { c.memory.stopDeleting(sw.UID) },
		}),
	)
	if err != nil {
		return nil, err
	}
	publishMetrics(ctx, machines.Informer())
	return c, nil
}

func newController(client versioned.Interface, recorder record.EventRecorder, machines, switches cache.Indexer) *Controller {
	return &Controller{client: client, recorder: recorder, machines: machines, switches: switches, switchSets: newSwitchSets()}
}

// syncHandler gathers, and then decides and applies stage by stage. The key of a namespace queues those of Machines.
func (c *Controller) syncHandler(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if isNamespaceKey(key) {
		return 0, c.syncNamespace(key.Namespace)
	}
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
	err = errors.Join(append(r.errs, err)...)
	if o.invalid != "" {
		err = errors.Join(err, controller.Permanent(errors.New(o.invalid)))
	}
	return after, err
}
