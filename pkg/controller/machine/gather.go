// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// gather reads the caches. It returns nil if the Machine is gone.
func (c *Controller) gather(ctx context.Context, key cache.ObjectName) (*observed, error) {
	// Read before the switches: what this version had is in them, or gone.
	version := c.switches.LastStoreSyncResourceVersion()
	found, exists, err := c.machines.GetByKey(key.String())
	if err != nil {
		return nil, err
	}
	if !exists {
		c.consistency.Clear(key)
		c.selectors.forget(key)
		c.memory.news(key, nil)
		return nil, nil
	}
	o := &observed{machine: found.(*v1alpha1.Machine), switchesVersion: version}
	if o.selector, err = c.selectors.of(o.machine); err != nil {
		o.invalid = err.Error()
	}
	// Asked before the cache: whatever goes from the one in between has gone from the other.
	deleting := c.memory.beingDeleted()
	owned, err := inIndex[*v1alpha1.Switch](c.switches, ownerIndex, string(o.machine.UID))
	if err != nil {
		return nil, err
	}
	for _, sw := range owned {
		if sw.Namespace == key.Namespace && sw.DeletionTimestamp == nil && !deleting.Has(sw.UID) {
			o.owned = append(o.owned, sw)
		}
	}
	slices.SortFunc(o.owned, func(a, b *v1alpha1.Switch) int { return cmp.Compare(a.Name, b.Name) })
	if o.selector != nil {
		if err := c.gatherOthers(key, o); err != nil {
			return nil, err
		}
		if o.taken, err = c.takenNames(o); err != nil {
			return nil, err
		}
	}
	if err := c.gatherReserved(ctx, o); err != nil {
		return nil, err
	}
	o.now = time.Now() // after all that was read: what it shows has happened before
	return o, nil
}

// gatherOthers looks at the switches that the selector matches and that are not ours.
func (c *Controller) gatherOthers(key cache.ObjectName, o *observed) error {
	candidates, err := inIndex[*v1alpha1.Switch](c.switches, bucketIndex, machineBucket(o.machine))
	if err != nil {
		return err
	}
	var strangers []*v1alpha1.Switch
	elders := sets.New[string]()
	for _, sw := range candidates {
		if metav1.IsControlledBy(sw, o.machine) || !o.selector.Matches(labels.Set(sw.Labels)) {
			continue
		}
		switch owner := metav1.GetControllerOfNoCopy(sw); {
		case owner == nil:
			if sw.DeletionTimestamp == nil {
				o.orphans = append(o.orphans, sw)
			}
		case machineOwner(sw) == nil:
			strangers = append(strangers, sw)
		default:
			// One whose owner's selector does not match it is about to be released; one whose owner is gone, deleted.
			other := c.ownerOf(sw)
			if other != nil && isOlder(other, o.machine) && c.selectors.matches(other, labels.Set(sw.Labels)) {
				elders.Insert(other.Name)
			}
		}
	}
	slices.SortFunc(o.orphans, func(a, b *v1alpha1.Switch) int { return cmp.Compare(a.Name, b.Name) })
	o.elders = sets.List(elders)
	for _, sw := range c.memory.news(key, strangers) {
		owner := metav1.GetControllerOfNoCopy(sw)
		o.strangers = append(o.strangers, fmt.Sprintf("%s (of %s %s)", sw.Name, owner.Kind, owner.Name))
	}
	slices.Sort(o.strangers)
	return nil
}

func isOlder(machine, than *v1alpha1.Machine) bool {
	return cmp.Or(machine.CreationTimestamp.Compare(than.CreationTimestamp.Time), cmp.Compare(machine.Name, than.Name)) < 0
}

// takenNames are the names of slots that exist, whosever they are, up to as many free ones as the scale may need.
func (c *Controller) takenNames(o *observed) (sets.Set[string], error) {
	taken, free := sets.New[string](), 0
	wanted := int(o.machine.Spec.Switches)
	for _, sw := range o.owned {
		if o.selector.Matches(labels.Set(sw.Labels)) {
			wanted--
		}
	}
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

// gatherReserved looks up the Switch of the reservation, at the API server if the cache cannot tell what has become of it.
func (c *Controller) gatherReserved(ctx context.Context, o *observed) error {
	flip := o.machine.Status.Flip
	if flip == nil {
		return nil
	}
	o.reservedGoes = c.memory.isDeleting(flip.UID)
	name := cache.NewObjectName(o.machine.Namespace, flip.Switch)
	found, exists, err := c.switches.GetByKey(name.String())
	if err != nil {
		return err
	}
	if exists && found.(*v1alpha1.Switch).UID == flip.UID {
		o.reserved = found.(*v1alpha1.Switch)
	}
	if reservationOf(o) != unknownReservation {
		return nil
	}
	o.live = true
	sw, err := c.client.UselessV1alpha1().Switches(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading Switch %s, a flip of which is reserved: %w", klog.KRef(name.Namespace, name.Name), err)
	case sw.UID == flip.UID:
		o.reserved = sw
	}
	return nil
}
