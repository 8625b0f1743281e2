// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

// gather reads the caches. It returns nil if the Machine is gone.
func (c *Controller) gather(key cache.ObjectName) (*observed, error) {
	// Read before the switches: what this version had is in them, or gone.
	version := c.switches.LastStoreSyncResourceVersion()
	found, exists, err := c.machines.GetByKey(key.String())
	if err != nil {
		return nil, err
	}
	if !exists {
		c.consistency.Clear(key)
		c.selectors.forget(key)
		c.memory.unreported(key, nil)
		return nil, nil
	}
	o := &observed{machine: found.(*v1alpha1.Machine), switchesVersion: version}
	if o.selector, err = c.selectors.of(o.machine); err != nil {
		o.invalid = err.Error()
	}
	// Read before the cache: a Switch that goes in between is missing in the cache.
	deleting := c.memory.beingDeleted(key)
	owned, err := inIndex[*v1alpha1.Switch](c.switches, ownerIndex, ownerKey(key.Namespace, o.machine.UID))
	if err != nil {
		return nil, err
	}
	for _, sw := range owned {
		switch {
		case sw.DeletionTimestamp != nil || deleting.Has(sw.UID):
		case o.selects(sw):
			o.owned = append(o.owned, sw)
		default:
			o.strays = append(o.strays, sw)
		}
	}
	slices.SortFunc(o.owned, compareNames)
	slices.SortFunc(o.strays, compareNames)
	if o.selector != nil {
		if err := c.gatherOthers(key, o); err != nil {
			return nil, err
		}
		if o.taken, err = c.takenNames(o); err != nil {
			return nil, err
		}
	}
	if err := c.gatherReserved(o); err != nil {
		return nil, err
	}
	o.now = time.Now() // after all reads: what they show has happened before
	return o, nil
}

// gatherOthers reads the switches that the selector matches and that the Machine does not control.
func (c *Controller) gatherOthers(key cache.ObjectName, o *observed) error {
	buckets := bucketsOf(o.machine)
	uncontrolled, err := inIndex[*v1alpha1.Switch](c.switches, bucketIndex, buckets...)
	if err != nil {
		return err
	}
	var foreign []*v1alpha1.Switch
	for _, sw := range uncontrolled {
		if !o.selector.Matches(labels.Set(sw.Labels)) {
			continue
		}
		switch ownershipOf(o.machine, sw) {
		case controller.Orphaned:
			o.orphans = append(o.orphans, sw)
		case controller.Foreign:
			foreign = append(foreign, sw)
		}
	}
	slices.SortFunc(o.orphans, compareNames)
	slices.SortFunc(foreign, compareNames)
	for _, sw := range c.memory.unreported(key, foreign) {
		owner := metav1.GetControllerOfNoCopy(sw)
		o.foreign = append(o.foreign, fmt.Sprintf("%s (of %s %s)", sw.Name, owner.Kind, owner.Name))
	}

	controlled, err := inIndex[*switchSet](c.switchSets.indexer, bucketIndex, buckets...)
	if err != nil {
		return err
	}
	older := map[string]*v1alpha1.Machine{}
	for _, set := range controlled {
		// If its owner's selector does not match, it is released next; if its owner is gone, it is deleted.
		other := c.machineOf(set.namespace, &set.owner)
		if other == nil || older[other.Name] != nil || compareAges(other, o.machine) >= 0 {
			continue
		}
		if o.selector.Matches(set.labels) && c.selectors.matches(other, set.labels) {
			older[other.Name] = other
		}
	}
	for _, other := range slices.SortedFunc(maps.Values(older), compareAges) {
		o.olderMachines = append(o.olderMachines, other.Name)
	}
	return nil
}

func compareNames(a, b *v1alpha1.Switch) int { return cmp.Compare(a.Name, b.Name) }

// compareAges orders Machines by their age, the oldest first.
func compareAges(a, b *v1alpha1.Machine) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// takenNames returns the names of slots that exist, whatever controls them, up to as many free ones as scaling may need.
func (c *Controller) takenNames(o *observed) (sets.Set[string], error) {
	taken, free := sets.New[string](), 0
	wanted := missing(o)
	for slot := 0; free < wanted; slot++ {
		name := slotName(o.machine.UID, slot)
		_, exists, err := c.switches.GetByKey(cache.NewObjectName(o.machine.Namespace, name).String())
		if err != nil {
			return nil, err
		}
		if exists {
			taken.Insert(name)
		} else {
			free++
		}
	}
	return taken, nil
}

// gatherReserved reads the Switch of the reservation from the cache.
func (c *Controller) gatherReserved(o *observed) error {
	flip := o.machine.Status.Flip
	if flip == nil {
		return nil
	}
	o.reservedIsDeleting = c.memory.isDeleting(flip.UID)
	found, exists, err := c.switches.GetByKey(cache.NewObjectName(o.machine.Namespace, flip.Switch).String())
	if err != nil {
		return err
	}
	if exists && found.(*v1alpha1.Switch).UID == flip.UID {
		o.reserved = found.(*v1alpha1.Switch)
	}
	return nil
}

// Answer implements controller.Reconciler.
func (r *reconciler) Answer(ctx context.Context, ask controller.Ask) error {
	switch ask.(type) {
	case readReserved:
		return r.readReserved(ctx)
	case readMachine:
		return r.fail(stageScale, r.readMachine(ctx))
	default:
		return fmt.Errorf("unknown ask %T", ask)
	}
}

// readReserved reads the live Switch of the reservation.
func (r *reconciler) readReserved(ctx context.Context) error {
	o, flip := r.observed, r.observed.machine.Status.Flip
	sw, err := r.client.UselessV1alpha1().Switches(r.key.Namespace).Get(ctx, flip.Switch, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading Switch %s, a flip of which is reserved: %w", klog.KRef(r.key.Namespace, flip.Switch), err)
	case sw.UID == flip.UID:
		o.reserved = sw
	}
	o.reservedIsLive, o.now = true, time.Now()
	return nil
}

// readMachine confirms that the live Machine is the observed one, and is not being deleted.
func (r *reconciler) readMachine(ctx context.Context) error {
	machine, err := r.client.UselessV1alpha1().Machines(r.key.Namespace).Get(ctx, r.key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (machine.UID != r.observed.machine.UID || machine.DeletionTimestamp != nil):
		return controller.ErrStop
	case err != nil:
		return fmt.Errorf("reading Machine %s before it adopts a Switch: %w", r.key, err)
	}
	r.observed.machineIsLive = true
	return nil
}
