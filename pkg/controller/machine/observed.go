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
)

// observed is all that is decided from. The objects are never changed; what a stage has done replaces them.
type observed struct {
	machine *v1alpha1.Machine
	// selector in force; nil if it cannot be used, and invalid tells why.
	selector labels.Selector
	invalid  string
	// owned are the switches that the Machine controls, sorted by name, those left out that are being deleted.
	owned []*v1alpha1.Switch
	// orphans are switches that the selector matches and nobody controls.
	orphans []*v1alpha1.Switch
	// elders are the older Machines that control switches which our selector and theirs match.
	elders []string
	// strangers are switches that the selector matches and something else than a Machine controls, as text, of which nobody
	// was told yet.
	strangers []string
	// taken are the names of our slots that exist already, as far as the scale needs to know.
	taken sets.Set[string]

	// reserved is the Switch of status.flip, by its UID; nil if there is none, in the cache or, if live, at the API server.
	reserved *v1alpha1.Switch
	live     bool
	// reservedGoes tells that we have asked for the deletion of that Switch.
	reservedGoes bool
	// switchesVersion is a resourceVersion that the cache of switches had reached before anything was read from it.
	switchesVersion string

	now time.Time
	// done is what this sync has done so far.
	done outcome
}

// outcome is what the stages of a sync have done, and what was in their way.
type outcome struct {
	leverMoved                                bool
	adopted, released, created, deleted, seen []string
	// refusal is why the API server does not want a new Switch, in its own words.
	refusal string
}

// put takes a Switch as it is now into what is observed.
func (o *observed) put(sw *v1alpha1.Switch) {
	o.drop(sw.UID)
	if metav1.IsControlledBy(sw, o.machine) && sw.DeletionTimestamp == nil {
		at, _ := slices.BinarySearchFunc(o.owned, sw.Name, func(sw *v1alpha1.Switch, name string) int { return cmp.Compare(sw.Name, name) })
		o.owned = slices.Insert(o.owned, at, sw)
	}
}

// drop takes a Switch out of what is observed.
func (o *observed) drop(uid types.UID) {
	is := func(sw *v1alpha1.Switch) bool { return sw.UID == uid }
	o.owned = slices.DeleteFunc(o.owned, is)
	o.orphans = slices.DeleteFunc(o.orphans, is)
}

// find returns the Switch of that name, of those that a step may be about.
func (o *observed) find(name string) *v1alpha1.Switch {
	for _, switches := range [][]*v1alpha1.Switch{o.owned, o.orphans} {
		for _, sw := range switches {
			if sw.Name == name {
				return sw
			}
		}
	}
	return nil
}

// deleted takes a Switch out of what is observed whose deletion was accepted.
func (o *observed) deleted(sw *v1alpha1.Switch) {
	o.drop(sw.UID)
	o.done.deleted = append(o.done.deleted, sw.Name)
	if flip := o.machine.Status.Flip; flip != nil && flip.UID == sw.UID {
		o.reservedGoes = true
	}
}
