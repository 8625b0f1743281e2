// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package machine

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
)

// observed is all that a sync decides from. The objects are never changed: the outcome of a step replaces them.
type observed struct {
	machine *v1alpha1.Machine
	// selector is nil if it is invalid; then invalid is the reason.
	selector labels.Selector
	invalid  string
	// owned are the switches that the Machine controls, that its selector matches, and that are not being deleted, sorted by name.
	owned []*v1alpha1.Switch
	// strays are those that the selector no longer matches, sorted by name. They are released.
	strays []*v1alpha1.Switch
	// orphans are the switches without a controller that the selector matches, sorted by name.
	orphans []*v1alpha1.Switch
	// olderMachines are the names of the older Machines that control switches which both selectors match, the oldest first.
	olderMachines []string
	// foreign are, as text, the switches that the selector matches and that another kind controls, as far as no event has reported them.
	foreign []string
	// taken are the names of our slots that exist already, as far as scaling has to know.
	taken sets.Set[string]

	// reserved is the Switch of status.flip, by its UID; nil if it is not in the cache or, if reservedIsLive, not at the API server.
	reserved       *v1alpha1.Switch
	reservedIsLive bool
	// reservedIsDeleting reports whether we have deleted that Switch and the cache still has it.
	reservedIsDeleting bool
	// switchesVersion is a resourceVersion that the cache of switches had reached before it was read.
	switchesVersion string

	// machineIsLive reports whether the API server has confirmed, in this sync, that the Machine exists and is not being deleted.
	machineIsLive bool
	now           time.Time
	progress      progress
}

// progress is what this sync has done so far.
type progress struct {
	leverMoved                                bool
	adopted, released, created, deleted, seen []string
	// rejection is the API server's reason for rejecting a new Switch.
	rejection string
	// claims, deletions and stamps are how many switches were to be adopted or released, deleted, and stamped.
	claims, deletions, stamps int
	// failed are the stages of which a step has failed. They are not tried again in this sync.
	failed sets.Set[stageName]
	// cacheIsStale reports whether a step has met an object that the cache does not show as it is.
	cacheIsStale bool
}

// ownershipOf returns the ownership of a Switch that the Machine's selector matches.
func ownershipOf(machine *v1alpha1.Machine, sw *v1alpha1.Switch) controller.Ownership {
	return controller.OwnershipOf(machine, machineKind, sw, func(*v1alpha1.Switch) bool { return true })
}

// machineOwner returns the owner reference to the Machine that controls the Switch; nil if none does.
func machineOwner(sw *v1alpha1.Switch) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(sw)
	if owner == nil || owner.Kind != machineKind.Kind || groupOf(owner.APIVersion) != machineKind.Group {
		return nil
	}
	return owner
}

// put replaces a Switch by its current state.
func (o *observed) put(sw *v1alpha1.Switch) {
	o.drop(sw.UID)
	if ownershipOf(o.machine, sw) != controller.Owned {
		return
	}
	switches := &o.owned
	if !o.selects(sw) {
		switches = &o.strays
	}
	at, _ := slices.BinarySearchFunc(*switches, sw.Name, func(sw *v1alpha1.Switch, name string) int { return cmp.Compare(sw.Name, name) })
	*switches = slices.Insert(*switches, at, sw)
}

// selects reports whether a Switch that the Machine controls may stay its own. With a selector that is invalid, all may.
func (o *observed) selects(sw *v1alpha1.Switch) bool {
	return o.selector == nil || o.selector.Matches(labels.Set(sw.Labels))
}

// drop removes a Switch that is gone.
func (o *observed) drop(uid types.UID) {
	is := func(sw *v1alpha1.Switch) bool { return sw.UID == uid }
	o.owned = slices.DeleteFunc(o.owned, is)
	o.strays = slices.DeleteFunc(o.strays, is)
	o.orphans = slices.DeleteFunc(o.orphans, is)
}

// find returns the Switch of that name that is owned, a stray or an orphan; nil if there is none.
func (o *observed) find(name string) *v1alpha1.Switch {
	for _, switches := range [][]*v1alpha1.Switch{o.owned, o.strays, o.orphans} {
		for _, sw := range switches {
			if sw.Name == name {
				return sw
			}
		}
	}
	return nil
}

// deleted removes a Switch whose deletion was accepted.
func (o *observed) deleted(sw *v1alpha1.Switch) {
	o.drop(sw.UID)
	o.progress.deleted = append(o.progress.deleted, sw.Name)
	if flip := o.machine.Status.Flip; flip != nil && flip.UID == sw.UID {
		o.reservedIsDeleting = true
	}
}
