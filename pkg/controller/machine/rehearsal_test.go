// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// rehearsal is a sync in which every step takes effect as it should, on what is observed: a pure and tiny world.
type rehearsal struct {
	*observed
	version int
	steps   []string
	flips   []time.Time
	refuse  error // every create
}

// observe is the Machine with these switches, at noon, with nobody else's.
func observe(machine *v1alpha1.Machine, switches ...*v1alpha1.Switch) *observed {
	o := &observed{machine: machine, taken: sets.New[string](), switchesVersion: "100", now: noon}
	var err error
	if o.selector, err = parseSelector(machine); err != nil {
		o.invalid = err.Error()
	}
	for _, sw := range switches {
		if flip := machine.Status.Flip; flip != nil && flip.UID == sw.UID {
			o.reserved = sw
		}
		if metav1.GetControllerOf(sw) == nil {
			o.orphans = append(o.orphans, sw)
			continue
		}
		o.put(sw)
	}
	return o
}

// sync rehearses one sync, and returns its steps.
func (r *rehearsal) sync() (steps []string, requeueAfter time.Duration, err error) {
	r.steps, r.done, r.strangers = nil, outcome{}, nil
	if flip := r.machine.Status.Flip; flip != nil {
		r.reserved = nil
		for _, sw := range r.owned {
			if sw.UID == flip.UID {
				r.reserved = sw
			}
		}
	}
	perform := func(steps []step) error {
		for _, s := range steps {
			r.steps = append(r.steps, s.String())
			if err := r.perform(s); err != nil {
				return err
			}
		}
		return nil
	}
	requeueAfter, err = follow(r.observed, hands{atOnce: perform, inOrder: perform})
	if requeueAfter != 0 {
		r.steps = append(r.steps, "again after "+requeueAfter.String())
	}
	return r.steps, requeueAfter, err
}

func (r *rehearsal) change(name string, change func(*v1alpha1.Switch)) {
	r.version++
	sw := r.find(name).DeepCopy()
	change(sw)
	sw.ResourceVersion = strconv.Itoa(1000 + r.version)
	r.put(sw)
}

func (r *rehearsal) perform(s step) error {
	switch s := s.(type) {
	case patchLever:
		r.machine = r.machine.DeepCopy()
		r.machine.Spec.SwitchPosition, r.done.leverMoved = v1alpha1.PositionDown, true
		r.machine.Generation++
	case adopt:
		r.change(s.name, func(sw *v1alpha1.Switch) {
			sw.OwnerReferences = *adoptPatch(r.machine, sw).Metadata.OwnerReferences
		})
		r.done.adopted = append(r.done.adopted, s.name)
	case release:
		r.change(s.name, func(sw *v1alpha1.Switch) { sw.OwnerReferences = nil })
		r.done.released = append(r.done.released, s.name)
		r.taken.Insert(s.name)
	case createSwitches:
		if r.refuse != nil {
			r.done.refusal = r.refuse.Error()
			return r.refuse
		}
		for _, name := range s.names {
			r.version++
			sw := newSwitch(r.machine, name)
			sw.UID, sw.ResourceVersion = types.UID("uid-"+name), strconv.Itoa(1000+r.version)
			sw.Generation, sw.CreationTimestamp = 1, metav1.NewTime(r.now)
			r.taken.Insert(name)
			r.put(sw)
			r.done.created = append(r.done.created, name)
		}
	case deleteSwitch:
		r.deleted(r.find(s.name))
	case stampSwitch:
		r.change(s.name, func(sw *v1alpha1.Switch) {
			sw.Status = v1alpha1.SwitchStatus{SeenAt: s.seenAt, ObservedGeneration: sw.Generation}
			if s.isNews {
				r.done.seen = append(r.done.seen, fmt.Sprintf("%s is %s", sw.Name, sw.Spec.Position))
			}
		})
	case writeStatus:
		r.machine = r.machine.DeepCopy()
		r.machine.Status = s.status
	case flipSwitch:
		sw := r.find(s.flip.Switch)
		if sw == nil || sw.UID != s.flip.UID {
			return errLater
		}
		if sw.ResourceVersion != s.flip.ResourceVersion {
			r.change(s.flip.Switch, func(*v1alpha1.Switch) {}) // the watch shows in which version it is
			return errLater
		}
		r.change(s.flip.Switch, position(v1alpha1.PositionDown))
		r.flips = append(r.flips, r.now)
	}
	return nil
}
