// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/machine"
	"millwright.dev/pkg/generated/clientset/versioned/scheme"
	"millwright.dev/pkg/generated/informers/externalversions"
	"millwright.dev/pkg/testing/perturbation"
	"millwright.dev/pkg/testing/testcluster"
)

var (
	machines = v1alpha1.Resource("machines").WithVersion(v1alpha1.GroupVersion.Version)
	switches = v1alpha1.Resource("switches").WithVersion(v1alpha1.GroupVersion.Version)
)

func TestMachine(t *testing.T) {
	type acts = []perturbation.Act
	tests := map[string]struct {
		given, acts acts
		// flips is how often a switch is moved down, without the levers.
		flips int
		// names is the maximal number of different names of switches; live is the maximal number of switches that a Machine has at a time.
		names, live int
	}{
		"three switches from nothing": {acts: acts{createMachine("a", 3)}, names: 3, live: 3},
		"scale up and down": {
			given: acts{createMachine("a", 1)}, acts: acts{scaleMachine("a", 3), scaleMachine("a", 1)},
			names: 3, live: 3,
		},
		"three up together": {given: acts{createMachine("a", 3)}, acts: acts{flipAll("a", 3)}, flips: 3, names: 3, live: 3},
		"up twice":          {given: acts{createMachine("a", 1)}, acts: acts{flipTwice("a")}, flips: 2, names: 1, live: 1},
		// A write that is held back until the end arrives while a switch waits.
		"an hour between two":  {given: acts{createMachine("a", 2)}, acts: acts{hourBetween("a"), upWithinTheHour("a")}, flips: 1, names: 2, live: 2},
		"the lever":            {acts: acts{createMachineWithLever("a")}, names: 1, live: 1},
		"from one to another":  {given: acts{createMachine("a", 2), createSecondMachine("b", 2)}, acts: acts{relabel("a", "b")}, names: 5, live: 3},
		"a switch loses label": {given: acts{createMachine("a", 2)}, acts: acts{unlabel("a")}, names: 3, live: 2},
		// If the cache still has the deleted switch, the new one gets another name.
		"a switch is deleted": {given: acts{createMachine("a", 2)}, acts: acts{deleteSwitch("a", 2)}, names: 3, live: 2},
		"one made by hand":    {given: acts{createMachine("a", 2)}, acts: acts{makeSwitch("a", 2)}, names: 3, live: 3},
		"deleted and created again": {
			given: acts{createMachine("a", 2)}, acts: acts{recreateMachine("a", 2, metav1.DeletePropagationBackground)},
			names: 5, live: 2,
		},
		"orphan and adopt": {
			given: acts{createMachine("a", 2)}, acts: acts{recreateMachine("a", 2, metav1.DeletePropagationOrphan)},
			flips: 1, names: 3, live: 2,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			perturbation.Test(t, testcluster.Shared(t), perturbation.Scenario{
				Name: name, Given: test.given, Acts: test.acts,
				Flicker:   flickerSwitches,
				Start:     startMachines,
				Resources: []schema.GroupVersionResource{machines, switches},
				Normalize: nameless,
				Invariants: []perturbation.Invariant{
					{Name: "flips keep the pace, and none is lost or repeated", Check: paceIsKept(test.flips)},
					{Name: "no more switches than requested", Check: noMoreSwitches(test.names, test.live)},
				},
			})
		})
	}
}

// startMachines runs one instance of the controller for a namespace.
func startMachines(ctx context.Context, config *rest.Config, namespace string) error {
	client, kubeClient, err := clients(config)
	if err != nil {
		return err
	}
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
	defer factory.Shutdown()
	recorder := controller.StartEvents(ctx, kubeClient).Recorder(scheme.Scheme, machine.ControllerName)
	useless := factory.Useless().V1alpha1()
	c, err := machine.New(ctx, client, useless.Machines(), useless.Switches(), recorder)
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	c.Run(ctx, 2)
	return nil
}

// nameless removes the names of switches, which have a part of a UID.
func nameless(object *unstructured.Unstructured) {
	if object.GetKind() == "Switch" {
		object.SetName("")
	}
}

// pace is the delay and the interval of the Machines of these tests: the shortest that the API allows. The API server records the times of
// writes in whole seconds, rounded down, which does not make the distance of two writes less than a whole number of seconds.
const pace = time.Second

// paceIsKept checks that every flip was reserved in the newest version of the Machine, with the version of the Switch that it changed, that
// it came at least the delay after the Switch was moved up and at least the interval after the flip before, which was recorded before the
// next reservation, and that the number of flips is the one wanted.
func paceIsKept(want int) func([]perturbation.Change) error {
	return func(history []perturbation.Change) error {
		flips, upSince, flipped := 0, map[types.UID]time.Time{}, map[types.UID]time.Time{}
		machineBefore, switchBefore := map[types.UID]*v1alpha1.Machine{}, map[types.UID]*v1alpha1.Switch{}
		for _, change := range history {
			uid, at := change.Object.GetUID(), writtenAt(change.Object, "")
			var position string
			switch change.Resource {
			case machines:
				m, err := typed[v1alpha1.Machine](change.Object)
				if err != nil {
					return err
				}
				if err := reservationIsInTime(machineBefore[uid], m, writtenAt(change.Object, "status"), flipped[uid]); err != nil {
					return err
				}
				machineBefore[uid], position = m, m.Spec.SwitchPosition
			case switches:
				sw, err := typed[v1alpha1.Switch](change.Object)
				if err != nil {
					return err
				}
				before := switchBefore[uid]
				switchBefore[uid], position = sw, sw.Spec.Position
				if before == nil || before.Spec.Position == sw.Spec.Position || sw.Spec.Position != v1alpha1.PositionDown {
					break
				}
				owner := metav1.GetControllerOf(sw)
				if owner == nil || machineBefore[owner.UID] == nil {
					return fmt.Errorf("at version %s Switch %s is moved down, which no Machine owns", sw.ResourceVersion, sw.Name)
				}
				flips++
				wanted := v1alpha1.Flip{Switch: sw.Name, UID: sw.UID, ResourceVersion: before.ResourceVersion}
				if reserved := machineBefore[owner.UID].Status.Flip; reserved == nil || *reserved != wanted {
					return fmt.Errorf("at version %s version %s of Switch %s is moved down, but the reservation is %+v", sw.ResourceVersion, before.ResourceVersion, sw.Name, reserved)
				}
				if last, ok := flipped[owner.UID]; ok && at.Sub(last) < pace {
					return fmt.Errorf("at version %s Switch %s is moved down at %s, but another was at %s", sw.ResourceVersion, sw.Name, at, last)
				}
				flipped[owner.UID] = at
			}
			since, wasUp := upSince[uid]
			switch isUp := position != "" && position != v1alpha1.PositionDown; {
			case isUp && !wasUp:
				upSince[uid] = at
			case !isUp && wasUp:
				delete(upSince, uid)
				if at.Sub(since) < pace {
					return fmt.Errorf("at version %s %s is moved down at %s, but it is up since %s", change.Object.GetResourceVersion(), change.Object.GetName(), at, since)
				}
			}
		}
		if flips != want {
			return fmt.Errorf("got %d flips, want %d", flips, want)
		}
		return nil
	}
}

// reservationIsInTime checks that a Machine's reservation does not replace another one, and comes after the flip before is recorded and the
// interval after it has passed.
func reservationIsInTime(before, m *v1alpha1.Machine, at, flipped time.Time) error {
	if m.Status.Flip == nil || before != nil && before.Status.Flip != nil && *before.Status.Flip == *m.Status.Flip {
		return nil
	}
	last := m.Status.LastFlipTime
	switch {
	case before != nil && before.Status.Flip != nil:
		return fmt.Errorf("at version %s of Machine %s a reservation replaces another", m.ResourceVersion, m.Name)
	case !flipped.IsZero() && (last == nil || last.Time.Before(flipped)):
		return fmt.Errorf("at version %s Machine %s makes a reservation, but the flip at %s is not recorded: %s", m.ResourceVersion, m.Name, flipped, last)
	case last != nil && !at.Add(time.Second).After(last.Add(pace)):
		return fmt.Errorf("at version %s Machine %s makes a reservation at %s, but the last flip was at %s", m.ResourceVersion, m.Name, at, last)
	}
	return nil
}

// writtenAt returns when the API server last wrote this part of the object.
func writtenAt(object *unstructured.Unstructured, subresource string) (at time.Time) {
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == subresource && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	return at
}

// noMoreSwitches checks the number of different names of switches, and that no Machine has more than the limit at any time. A surplus name
// shows a surplus create, even though a late create may use a name that has become free.
func noMoreSwitches(names, live int) func([]perturbation.Change) error {
	return func(history []perturbation.Change) error {
		seen, owned := map[string]bool{}, map[types.UID]map[types.UID]bool{}
		for _, change := range history {
			object := change.Object
			if change.Resource != switches {
				continue
			}
			seen[object.GetName()] = true
			for _, of := range owned {
				delete(of, object.GetUID())
			}
			owner := metav1.GetControllerOf(object)
			if owner == nil || change.Deleted {
				continue
			}
			if owned[owner.UID] == nil {
				owned[owner.UID] = map[types.UID]bool{}
			}
			owned[owner.UID][object.GetUID()] = true
			if has := len(owned[owner.UID]); has > live {
				return fmt.Errorf("at version %s Machine %s has %d switches", object.GetResourceVersion(), owner.Name, has)
			}
		}
		if len(seen) > names {
			return fmt.Errorf("got %d names of switches, want at most %d: %v", len(seen), names, seen)
		}
		return nil
	}
}
