// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// maxMatched is how many selectors the handler of an event matches. More are left to a sync: they may be large, and the events of all namespaces wait.
const maxMatched = 10

// namespaceKey is the key of a sync that finds the Machines which changes concern, and queues them.
func namespaceKey(namespace string) cache.ObjectName { return cache.ObjectName{Namespace: namespace} }

func isNamespaceKey(key cache.ObjectName) bool { return key.Name == "" }

// machineChanged returns the keys to sync after a change of a Machine: its own and, if it is new or gone and has switches, those of the other Machines
// that may report it. before or after is nil if the Machine did not exist or does not.
func (c *Controller) machineChanged(ctx context.Context, before, after *v1alpha1.Machine) (keys []cache.ObjectName) {
	states := existing(before, after)
	keys = append(keys, cache.MetaObjectToName(states[0]))
	if before != nil && after != nil && before.UID == after.UID {
		return keys
	}
	var changed []labels.Set
	for _, machine := range states {
		found, err := inIndex[*switchSet](c.switchSets.indexer, ownerIndex, ownerKey(machine.Namespace, machine.UID))
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to look up the switches of a Machine", "machine", klog.KObj(machine))
		}
		for _, set := range found {
			changed = append(changed, set.labels)
		}
	}
	return c.withConcerned(ctx, states[0].Namespace, keys, changed)
}

// switchChanged returns the keys to sync after a change of a Switch: those of the Machines that controlled it and control it and, if they have to know,
// those of the other Machines whose selectors match. These have to know of a Switch that is new or gone, or has other labels or another controller; if
// a Machine controls it, only unless another Switch of that Machine has these labels. before or after is nil if the Switch did not exist or does not.
func (c *Controller) switchChanged(ctx context.Context, before, after *v1alpha1.Switch) (keys []cache.ObjectName) {
	states := existing(before, after)
	for _, sw := range states {
		owner := machineOwner(sw)
		if owner == nil {
			continue
		}
		key := cache.NewObjectName(sw.Namespace, owner.Name)
		if c.machineOf(sw.Namespace, owner) != nil && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if len(states) == 2 {
		if before.UID != after.UID {
			c.memory.stopDeleting(before.UID)
		} else if maps.Equal(before.Labels, after.Labels) && controllerOf(before) == controllerOf(after) {
			return keys
		}
	}
	changed, err := c.switchSets.move(cache.MetaObjectToName(states[0]), after)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to index a Switch", "switch", klog.KObj(states[0]))
	}
	for _, sw := range states {
		if machineOwner(sw) == nil {
			changed = append(changed, sw.Labels)
		}
	}
	return c.withConcerned(ctx, states[0].Namespace, keys, changed)
}

// withConcerned adds the keys of the Machines whose selectors match labels that have changed. If it would have to match more than maxMatched selectors, it
// returns the key of the namespace instead, whose sync queues all of them.
func (c *Controller) withConcerned(ctx context.Context, namespace string, keys []cache.ObjectName, changed []labels.Set) []cache.ObjectName {
	matched, all := 0, slices.Clone(keys)
	for _, set := range changed {
		machines, err := c.candidates(namespace, set)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to look up the Machines of a namespace", "namespace", namespace)
		}
		if matched += max(1, len(machines)); matched > maxMatched {
			c.labelChanges.add(namespace, keys, changed)
			return []cache.ObjectName{namespaceKey(namespace)}
		}
		for _, machine := range machines {
			if key := cache.MetaObjectToName(machine); !slices.Contains(all, key) && c.selectors.matches(machine, set) {
				all = append(all, key)
			}
		}
	}
	return all
}

// controllerOf returns the identity of the controller of a Switch; the zero value if it has none.
func controllerOf(sw *v1alpha1.Switch) metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(sw)
	if owner == nil {
		return metav1.OwnerReference{}
	}
	return metav1.OwnerReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID}
}

// syncNamespace queues the Machines that changes concern.
func (c *Controller) syncNamespace(namespace string) error {
	concerned, err := c.concerned(namespace)
	c.Enqueue(concerned...)
	return err
}

// concerned returns the keys of the Machines that changes concern, sorted. The next call does not return them again.
func (c *Controller) concerned(namespace string) (keys []cache.ObjectName, err error) {
	changes := c.labelChanges.take(namespace)
	concerned := changes.keys.Clone()
	var errs []error
	if changes.isTruncated {
		machines, err := inIndex[*v1alpha1.Machine](c.machines, cache.NamespaceIndex, namespace)
		errs = append(errs, err)
		for _, machine := range machines {
			concerned.Insert(cache.MetaObjectToName(machine))
		}
	}
	for _, set := range changes.labels {
		machines, err := c.candidates(namespace, set)
		errs = append(errs, err)
		for _, machine := range machines {
			if key := cache.MetaObjectToName(machine); !concerned.Has(key) && c.selectors.matches(machine, set) {
				concerned.Insert(key)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(concerned), func(a, b cache.ObjectName) int { return cmp.Compare(a.Name, b.Name) }), errors.Join(errs...)
}

// candidates returns the Machines whose selector may match the labels.
func (c *Controller) candidates(namespace string, set labels.Set) ([]*v1alpha1.Machine, error) {
	if len(set) > maxIndexedLabels {
		return inIndex[*v1alpha1.Machine](c.machines, cache.NamespaceIndex, namespace)
	}
	return inIndex[*v1alpha1.Machine](c.machines, bucketIndex, labelBuckets(namespace, set)...)
}

// machineOf returns the Machine that an owner reference names; nil if it is gone.
func (c *Controller) machineOf(namespace string, owner *metav1.OwnerReference) *v1alpha1.Machine {
	found, exists, err := c.machines.GetByKey(cache.NewObjectName(namespace, owner.Name).String())
	if err != nil || !exists || found.(*v1alpha1.Machine).UID != owner.UID {
		return nil
	}
	return found.(*v1alpha1.Machine)
}

// existing returns those of the two states that are not nil.
func existing[T any](before, after *T) (states []*T) {
	for _, state := range []*T{before, after} {
		if state != nil {
			states = append(states, state)
		}
	}
	return states
}
