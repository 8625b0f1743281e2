// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// noon is now in the tests of what is pure.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at returns the time that number of seconds after noon.
func at(seconds float64) time.Time {
	return noon.Add(time.Duration(seconds * float64(time.Second)))
}

func microAt(seconds float64) *metav1.MicroTime { return timeAt(at(seconds)) }

type machineOption func(*v1alpha1.Machine)

// newMachine is default/m with that number of switches, as the API server returns it after its first apply.
func newMachine(switches int32, options ...machineOption) *v1alpha1.Machine {
	machine := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m", UID: "uid-m", Generation: 1, ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(at(-3600))},
		Spec: v1alpha1.MachineSpec{Switches: switches, FlipDelaySeconds: 5, FlipIntervalSeconds: 5},
	}
	for _, option := range options {
		option(machine)
	}
	return machine
}

func named(name string) machineOption {
	return func(m *v1alpha1.Machine) { m.Name, m.UID = name, types.UID("uid-"+name) }
}

func withSelector(selector metav1.LabelSelector) machineOption {
	return func(m *v1alpha1.Machine) { m.Spec.Selector = &selector }
}

// leverSeen: the lever has this position, and was seen that number of seconds after noon.
func leverSeen(position string, seenAt float64) machineOption {
	return func(m *v1alpha1.Machine) { m.Spec.SwitchPosition, m.Status.SeenAt = position, microAt(seenAt) }
}

func withLever(position string) machineOption {
	return func(m *v1alpha1.Machine) { m.Spec.SwitchPosition = position }
}

// reservedFlip of a Switch of newSwitchOf, at that version.
func reservedFlip(name, version string) machineOption {
	return func(m *v1alpha1.Machine) {
		m.Status.Flip = &v1alpha1.Flip{Switch: name, UID: types.UID("uid-" + name), ResourceVersion: version}
	}
}

func lastFlip(seconds float64) machineOption {
	return func(m *v1alpha1.Machine) { m.Status.LastFlipTime = microAt(seconds) }
}

func readyIs(value metav1.ConditionStatus, reason, message string) machineOption {
	return func(m *v1alpha1.Machine) {
		m.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: value, Reason: reason, Message: message, ObservedGeneration: 1,
			LastTransitionTime: metav1.NewTime(at(-60))}}
	}
}

// settled: the status is that of a Machine whose switches have these positions.
func settled(positions string) machineOption {
	return func(m *v1alpha1.Machine) {
		m.Status.Replicas, m.Status.Positions = int32(len([]rune(positions))), positions
		m.Status.ObservedGeneration, m.Status.Selector = 1, "machine="+m.Name
		readyIs("True", "Complete", "")(m)
	}
}

type switchOption func(*v1alpha1.Switch)

// switchOf is a Switch of default/m that is down.
func switchOf(name string, options ...switchOption) *v1alpha1.Switch {
	sw := newSwitch(newMachine(1), name)
	sw.UID, sw.ResourceVersion, sw.Generation = types.UID("uid-"+name), "10", 1
	sw.CreationTimestamp = metav1.NewTime(at(-60))
	for _, option := range options {
		option(sw)
	}
	return sw
}

func position(position string) switchOption {
	return func(sw *v1alpha1.Switch) {
		sw.Spec.Position = position
		sw.Generation++
	}
}

// up: it was flipped, and the controller has not seen it.
func up(sw *v1alpha1.Switch) { position("up")(sw) }

// upSince: it was flipped and seen that number of seconds after noon.
func upSince(seconds float64) switchOption {
	return func(sw *v1alpha1.Switch) {
		up(sw)
		stampedAt(seconds)(sw)
	}
}

func stampedAt(seconds float64) switchOption {
	return func(sw *v1alpha1.Switch) {
		sw.Status = v1alpha1.SwitchStatus{SeenAt: microAt(seconds), ObservedGeneration: sw.Generation}
	}
}

func version(version string) switchOption {
	return func(sw *v1alpha1.Switch) { sw.ResourceVersion = version }
}

func created(seconds float64) switchOption {
	return func(sw *v1alpha1.Switch) { sw.CreationTimestamp = metav1.NewTime(at(seconds)) }
}

func labelled(machine string) switchOption {
	return func(sw *v1alpha1.Switch) { sw.Labels = map[string]string{"machine": machine} }
}

func orphaned(sw *v1alpha1.Switch) { sw.OwnerReferences = nil }

func ownedByStranger(sw *v1alpha1.Switch) {
	sw.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "House", Name: "h", UID: "uid-h", Controller: ptr.To(true)}}
}
