// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// newMachine returns a Machine.
func newMachine(name string, switches int32, changes ...func(*v1alpha1.MachineSpec)) *v1alpha1.Machine {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.MachineSpec{Switches: switches}}
	for _, change := range changes {
		change(&machine.Spec)
	}
	return machine
}

// quick sets the shortest delay and interval that a Machine may have.
func quick(spec *v1alpha1.MachineSpec) { spec.FlipDelaySeconds, spec.FlipIntervalSeconds = 1, 1 }

// selecting sets a selector with matchLabels.
func selecting(key, value string) func(*v1alpha1.MachineSpec) {
	return func(spec *v1alpha1.MachineSpec) {
		spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
}

func (e *env) createMachine(machine *v1alpha1.Machine) *v1alpha1.Machine {
	e.Helper()
	created, err := e.client.UselessV1alpha1().Machines(e.namespace).Create(e.Context(), machine, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return created
}

func (e *env) machine(name string) *v1alpha1.Machine {
	e.Helper()
	machine, err := e.client.UselessV1alpha1().Machines(e.namespace).Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return machine
}

// switches returns the switches of the namespace, sorted by name.
func (e *env) switches() []v1alpha1.Switch {
	e.Helper()
	list, err := e.client.UselessV1alpha1().Switches(e.namespace).List(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return list.Items
}

// switchesOf returns the switches that the Machine controls, sorted by name.
func (e *env) switchesOf(machine metav1.Object) (owned []v1alpha1.Switch) {
	e.Helper()
	for _, sw := range e.switches() {
		if metav1.IsControlledBy(&sw, machine) {
			owned = append(owned, sw)
		}
	}
	return owned
}

func (e *env) patchSwitch(name, patch string) {
	e.Helper()
	_, err := e.client.UselessV1alpha1().Switches(e.namespace).Patch(e.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

func (e *env) flipUp(name string) {
	e.Helper()
	e.patchSwitch(name, `{"spec":{"position":"up"}}`)
}

// awaitMachine waits until the Machine has this number of switches, all of them and the lever are down, and the status reports it. It
// returns the Machine and its switches.
func (e *env) awaitMachine(name string, switches int) (*v1alpha1.Machine, []v1alpha1.Switch) {
	e.Helper()
	var machine *v1alpha1.Machine
	var owned []v1alpha1.Switch
	e.eventually(func() (complaint string) {
		machine = e.machine(name)
		owned = e.switchesOf(machine)
		if machine.Spec.Switches != int32(switches) {
			return fmt.Sprintf("spec.switches: got %d, want %d", machine.Spec.Switches, switches)
		}
		return notSettled(machine, owned)
	})
	return machine, owned
}

// notSettled returns the state of a Machine and the switches that it owns, or "" if nothing is left to do.
func notSettled(machine *v1alpha1.Machine, owned []v1alpha1.Switch) string {
	status := machine.Status
	wanted := int(machine.Spec.Switches)
	if lever := machine.Spec.SwitchPosition; lever != "" && lever != v1alpha1.PositionDown || status.SeenAt != nil || status.Flip != nil ||
		status.ObservedGeneration != machine.Generation || int(status.Replicas) != wanted || status.Positions != strings.Repeat("d", wanted) ||
		!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) || len(owned) != wanted {
		return describeMachine(machine, owned)
	}
	for _, sw := range owned {
		if sw.DeletionTimestamp != nil || sw.Spec.Position != v1alpha1.PositionDown || sw.Status.SeenAt != nil {
			return describeMachine(machine, owned)
		}
	}
	return ""
}

// awaitMachineReason waits until Ready is False for this reason, and returns its message.
func (e *env) awaitMachineReason(name, reason string) (message string) {
	e.Helper()
	e.eventually(func() string {
		machine := e.machine(name)
		ready := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason || machine.Status.ObservedGeneration != machine.Generation {
			return describeMachine(machine, nil)
		}
		message = ready.Message
		return ""
	})
	return message
}

func (e *env) machineEvents(name string) []corev1.Event {
	e.Helper()
	list, err := e.kube.CoreV1().Events(e.namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Machine,involvedObject.name=" + name})
	if err != nil {
		e.Fatal(err)
	}
	return list.Items
}

// awaitMachineEvent waits for an event of the reason on the Machine whose message has this part.
func (e *env) awaitMachineEvent(name, reason, part string) {
	e.Helper()
	e.eventually(func() string {
		var got []string
		for _, event := range e.machineEvents(name) {
			if event.Reason == reason && strings.Contains(event.Message, part) {
				return ""
			}
			got = append(got, event.Reason+": "+event.Message)
		}
		return fmt.Sprintf("no event %s %q; got\n%s", reason, part, strings.Join(got, "\n"))
	})
}

// file writes the text into a file, and returns its path.
func (e *env) file(text string) string {
	e.Helper()
	path := filepath.Join(e.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
	return path
}

// kubectlFails runs a kubectl command that must fail, and returns its output.
func (e *env) kubectlFails(args ...string) string {
	e.Helper()
	return e.cluster.KubectlFails(e, append([]string{"--namespace", e.namespace}, args...)...)
}

// watchRows starts kubectl get --watch. The returned function returns the columns of each row that it has printed so far. The first row is there
// already: all later changes follow.
func (e *env) watchRows(args ...string) (rows func() [][]string) {
	e.Helper()
	output := e.cluster.StartKubectl(e, append([]string{"--namespace", e.namespace, "get", "--watch", "--no-headers"}, args...)...)
	rows = func() (rows [][]string) {
		text := output()
		for line := range strings.Lines(text[:strings.LastIndex(text, "\n")+1]) { // the last line may not be whole
			rows = append(rows, strings.Fields(line))
		}
		return rows
	}
	e.eventually(func() string {
		if len(rows()) == 0 {
			return "kubectl get --watch has printed nothing"
		}
		return ""
	})
	return rows
}

// columns returns the header that kubectl get prints.
func (e *env) columns(args ...string) string {
	e.Helper()
	header, _, _ := strings.Cut(e.kubectl(append([]string{"get"}, args...)...), "\n")
	return strings.Join(strings.Fields(header), " ")
}

// describeMachine returns the state of a Machine and its switches as one line.
func describeMachine(machine *v1alpha1.Machine, owned []v1alpha1.Switch) string {
	line := fmt.Sprintf("Machine %s: generation %d (observed %d), %d switches (%d, %q), lever %q seen %v, flip %v, last %v", machine.Name, machine.Generation,
		machine.Status.ObservedGeneration, machine.Spec.Switches, machine.Status.Replicas, machine.Status.Positions, machine.Spec.SwitchPosition,
		machine.Status.SeenAt, machine.Status.Flip, machine.Status.LastFlipTime)
	for _, condition := range machine.Status.Conditions {
		line += fmt.Sprintf("; %s=%s %s %q", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	for _, sw := range owned {
		line += fmt.Sprintf("; %s %s seen %v", sw.Name, sw.Spec.Position, sw.Status.SeenAt)
	}
	return line
}
