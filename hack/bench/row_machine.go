// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// switchesPerMachine is the number of Switches of each Machine.
const switchesPerMachine = 4

var machines = scenario{
	name: "machine", about: "cold start of Machines with 4 Switches, over the bare client",
	size: 500, quickSize: 25,
	measure: func(ctx context.Context, t *turn) error { return t.contest(ctx, &machineWorkload) },
}

var machineWorkload = workload{
	resource: v1alpha1.Resource("machines").WithVersion(v1alpha1.GroupVersion.Version),
	create: func(ctx context.Context, n *namespace, name string) error {
		_, err := n.client.UselessV1alpha1().Machines(n.name).Create(ctx, &v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.MachineSpec{Switches: switchesPerMachine},
		}, metav1.CreateOptions{})
		return err
	},
	observe: func(ctx context.Context, n *namespace, o *observer) error {
		machines := n.client.UselessV1alpha1().Machines(n.name)
		if err := o.follow(ctx, allDown.kind, metav1.ListOptions{}, machines.Watch, markOfMachine); err != nil {
			return err
		}
		return o.followEvents(ctx, n, "Machine")
	},
	phases: []phase{{
		name: "cold start", reached: allDown, events: 1,
		requests: switchesPerMachine + 2 + 1, // the status twice, one event for all Switches
	}},
	cpuPerSyncGoal: 1,
}

var allDown = milestone{"Machines", "Ready with all switches down"}

// markOfMachine is allDown where nothing is left to do or to write.
func markOfMachine(event watch.Event) (name, mark string) {
	machine := event.Object.(*v1alpha1.Machine)
	status := &machine.Status
	if status.Replicas == switchesPerMachine && status.Positions == strings.Repeat("d", switchesPerMachine) && status.Flip == nil &&
		status.ObservedGeneration == machine.Generation && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
		mark = allDown.mark
	}
	return machine.Name, mark
}
