// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

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

	consistency controller.ConsistencyStore[cache.ObjectName]
	selectors   selectors
	memory      memory
}

// New returns the controller; Run starts it.
func New(ctx context.Context, client versioned.Interface, machines informers.TypedMachineInformer, switches informers.TypedSwitchInformer,
	recorder record.EventRecorder) (*Controller, error) {
	c := &Controller{
		client:   client,
		recorder: recorder,
		machines: machines.Informer().GetIndexer(),
		switches: switches.Informer().GetIndexer(),
	}
	controller.TrimCache(machines.Informer())
	controller.TrimCache(switches.Informer())
	controller.ReportWatchErrors(machines.Informer(), v1alpha1.Resource("machines"))
	controller.ReportWatchErrors(switches.Informer(), v1alpha1.Resource("switches"))

	c.Loop = controller.NewLoop(ctx, controller.Config[cache.ObjectName]{Name: ControllerName, Sync: c.syncHandler})
	err := errors.Join(
		machines.Informer().AddIndexers(machineIndexers()),
		switches.Informer().AddIndexers(switchIndexers()),
		controller.Watch(ctx, c.Loop, controller.Source[*v1alpha1.Machine, cache.ObjectName]{
			Informer: machines.TypedInformer(),
			Keys: func(machine *v1alpha1.Machine) []cache.ObjectName {
				return []cache.ObjectName{cache.MetaObjectToName(machine)}
			},
		}),
		controller.Watch(ctx, c.Loop, controller.Source[*v1alpha1.Switch, cache.ObjectName]{
			Informer: switches.TypedInformer(),
			Keys:     func(sw *v1alpha1.Switch) []cache.ObjectName { return c.switchKeys(ctx, sw) },
			Deleted:  func(sw *v1alpha1.Switch, _ bool) { c.memory.stopDeleting(sw.UID) },
		}),
	)
	if err != nil {
		return nil, err
	}
	publishMetrics(ctx, machines.Informer())
	return c, nil
}

// switchKeys returns the keys of the Machine that controls the Switch, and of all Machines whose selector matches it.
func (c *Controller) switchKeys(ctx context.Context, sw *v1alpha1.Switch) (keys []cache.ObjectName) {
	if machine := c.ownerOf(sw); machine != nil {
		keys = append(keys, cache.MetaObjectToName(machine))
	}
	for _, bucket := range switchBuckets(sw) {
		machines, err := inIndex[*v1alpha1.Machine](c.machines, bucketIndex, bucket)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to look up the Machines of a Switch", "switch", klog.KObj(sw))
		}
		for _, machine := range machines {
			if c.selectors.matches(machine, labels.Set(sw.Labels)) {
				keys = append(keys, cache.MetaObjectToName(machine))
			}
		}
	}
	return keys
}

// ownerOf returns the Machine that controls the Switch; nil if none does, or if the one that did is gone.
func (c *Controller) ownerOf(sw *v1alpha1.Switch) *v1alpha1.Machine {
	owner := machineOwner(sw)
	if owner == nil {
		return nil
	}
	found, exists, err := c.machines.GetByKey(cache.NewObjectName(sw.Namespace, owner.Name).String())
	if err != nil || !exists || found.(*v1alpha1.Machine).UID != owner.UID {
		return nil
	}
	return found.(*v1alpha1.Machine)
}

// syncHandler gathers, and then decides and applies stage by stage.
func (c *Controller) syncHandler(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	// Checked before anything is read: later reads are at least as new.
	if !c.consistency.IsReady(key) {
		return controller.StaleCacheDelay, nil
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
