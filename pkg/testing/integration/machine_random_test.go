// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/controller/machine"
)

func TestMachineRandomOperations(t *testing.T) {
	t.Parallel()
	testRandomOperations(t, machine.ControllerName, func(e *env) world {
		recordFlips(e, time.Second, time.Second)
		return &machineWorld{env: e, machines: map[string]int32{}}
	})
}

// machineNames are the names of the Machines. They are few, so that each gets many operations.
var machineNames = []string{"red", "green", "blue"}

// machineWorld keeps how many switches each Machine must have. In the end all switches must be down.
type machineWorld struct {
	*env
	machines map[string]int32
	made     int // the number of switches that users have created
}

// complaint implements world.
func (w *machineWorld) complaint() string {
	list, err := w.client.UselessV1alpha1().Machines(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	all, err := w.client.UselessV1alpha1().Switches(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	if len(list.Items) != len(w.machines) {
		return fmt.Sprintf("got %d Machines, want %v", len(list.Items), w.machines)
	}
	owned := map[types.UID][]v1alpha1.Switch{}
	for _, sw := range all.Items {
		of := sw.Labels[machine.LabelMachine]
		owner := metav1.GetControllerOf(&sw)
		_, isWanted := w.machines[of]
		switch {
		case owner == nil && isWanted:
			return fmt.Sprintf("Switch %s has the label of %s and no owner", sw.Name, of)
		case owner != nil && owner.Name != of:
			return fmt.Sprintf("%s owns Switch %s, which has the label of %q", owner.Name, sw.Name, of)
		case owner != nil:
			owned[owner.UID] = append(owned[owner.UID], sw)
		}
	}
	for i := range list.Items {
		m := &list.Items[i]
		if m.Spec.Switches != w.machines[m.Name] {
			return describeMachine(m, nil)
		}
		if complaint := notSettled(m, owned[m.UID]); complaint != "" {
			return complaint
		}
		delete(owned, m.UID)
	}
	for uid, switches := range owned {
		return fmt.Sprintf("%s and %d more belong to %s, which is gone", switches[0].Name, len(switches)-1, uid)
	}
	return ""
}

// addLast implements world.
func (w *machineWorld) addLast() {
	w.createMachine(newMachine(lastName, 1, neverHas))
	w.awaitMachineReason(lastName, v1alpha1.ReasonInvalidSelector)
}

// operations implements world.
func (w *machineWorld) operations() []operation {
	return []operation{
		{12, func(random *rand.Rand) string {
			name := draw(random, machineNames...)
			if w.machines[name] != 0 {
				return "create " + name + ": it exists"
			}
			return w.makeMachine(name, random)
		}},
		{10, w.onMachine("scale", func(name string, random *rand.Rand) string {
			w.machines[name] = 1 + random.Int32N(5)
			return w.edit(name, fmt.Sprintf(`{"spec":{"switches":%d}}`, w.machines[name]))
		})},
		{6, w.onMachine("lever", func(name string, random *rand.Rand) string {
			return w.edit(name, fmt.Sprintf(`{"spec":{"switchPosition":%q}}`, draw(random, "up", "up", "left", "down")))
		})},
		{4, w.onMachine("edit", func(name string, random *rand.Rand) string {
			return w.edit(name, fmt.Sprintf(`{"metadata":{"annotations":{"note":"%d"}}}`, random.IntN(10)))
		})},
		{6, w.onMachine("delete", w.deleteMachine)},
		{4, w.onMachine("recreate", func(name string, random *rand.Rand) string {
			return w.deleteMachine(name, random) + ", and " + w.makeMachine(name, random)
		})},
		{8, w.makeSwitch},
		{20, w.onSwitch(func(random *rand.Rand) string {
			return fmt.Sprintf(`{"spec":{"position":%q}}`, draw(random, "up", "up", "left", "übers Eck"))
		})},
		{5, w.onSwitch(func(*rand.Rand) string {
			return fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}},"spec":{"position":"down"}}`, byHand, time.Now().UnixNano())
		})},
		{10, w.onSwitch(func(random *rand.Rand) string {
			return fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, machine.LabelMachine, draw(random, `"red"`, `"green"`, `"blue"`, `"none"`, "null"))
		})},
		{3, w.onSwitch(func(*rand.Rand) string { return `{"metadata":{"ownerReferences":null}}` })},
		{8, w.deleteSwitch},
	}
}

// onMachine returns an operation on one of the Machines that exist.
func (w *machineWorld) onMachine(what string, do func(name string, random *rand.Rand) string) func(*rand.Rand) string {
	return func(random *rand.Rand) string {
		names := slices.Sorted(maps.Keys(w.machines))
		if len(names) == 0 {
			return what + ": there is no Machine"
		}
		return do(draw(random, names...), random)
	}
}

func (w *machineWorld) makeMachine(name string, random *rand.Rand) string {
	wanted := newMachine(name, 1+random.Int32N(4), quick, func(spec *v1alpha1.MachineSpec) { spec.SwitchPosition = draw(random, "", "", "up") })
	_, err := w.client.UselessV1alpha1().Machines(w.namespace).Create(w.Context(), wanted, metav1.CreateOptions{})
	if err == nil {
		w.machines[name] = wanted.Spec.Switches
	}
	return w.outcome(fmt.Sprintf("create %s with %d switches, lever %q", name, wanted.Spec.Switches, wanted.Spec.SwitchPosition), err)
}

func (w *machineWorld) edit(name, patch string) string {
	_, err := w.client.UselessV1alpha1().Machines(w.namespace).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return fmt.Sprintf("edit %s: %s", name, patch)
}

func (w *machineWorld) deleteMachine(name string, random *rand.Rand) string {
	how := draw(random, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, metav1.DeletePropagationOrphan)
	if err := w.client.UselessV1alpha1().Machines(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{PropagationPolicy: &how}); err != nil {
		w.Fatal(err)
	}
	delete(w.machines, name)
	return fmt.Sprintf("delete %s: %s", name, how)
}

// makeSwitch creates a Switch as a user, for a Machine that may exist or not.
func (w *machineWorld) makeSwitch(random *rand.Rand) string {
	w.made++
	sw := &v1alpha1.Switch{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("hand-%d", w.made)}, Spec: v1alpha1.SwitchSpec{Position: draw(random, "up", "down")}}
	sw.Labels = map[string]string{machine.LabelMachine: draw(random, machineNames...)}
	_, err := w.client.UselessV1alpha1().Switches(w.namespace).Create(w.Context(), sw, metav1.CreateOptions{})
	return w.outcome(fmt.Sprintf("make Switch %s for %s, %s", sw.Name, sw.Labels[machine.LabelMachine], sw.Spec.Position), err)
}

// onSwitch returns an operation that patches one of the switches that exist.
func (w *machineWorld) onSwitch(patchFor func(random *rand.Rand) string) func(*rand.Rand) string {
	return func(random *rand.Rand) string {
		all := w.switches()
		if len(all) == 0 {
			return "edit a Switch: there is none"
		}
		name, patch := draw(random, all...).Name, patchFor(random)
		_, err := w.client.UselessV1alpha1().Switches(w.namespace).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return w.outcome(fmt.Sprintf("edit Switch %s: %s", name, patch), err)
	}
}

func (w *machineWorld) deleteSwitch(random *rand.Rand) string {
	all := w.switches()
	if len(all) == 0 {
		return "delete a Switch: there is none"
	}
	name := draw(random, all...).Name
	return w.outcome("delete Switch "+name, w.client.UselessV1alpha1().Switches(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
}
