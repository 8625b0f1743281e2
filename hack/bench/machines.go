// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

const (
	// switchesPerMachine is how many each Machine of a run has.
	switchesPerMachine = 4

	machinesSeen = "Machines"
	allDown      = "Ready with all switches down"
)

// machinesOf is a cold start of Machines.
func machinesOf(count int) *workload {
	return &workload{
		resource: v1alpha1.Resource("machines").WithVersion(v1alpha1.GroupVersion.Version),
		count:    count,
		create:   createMachine,
		observe:  observeMachines,
		requests: []string{"POST switches", "PUT machines/status", "PUT switches/status", "PATCH switches", "GET switches"},
		phases: []phase{{
			name: "cold start", title: fmt.Sprintf("cold start of %%d Machines of %d switches, until all are Ready", switchesPerMachine),
			milestones: []milestone{{kind: machinesSeen, mark: allDown}}, events: 1,
			requestsGoal: switchesPerMachine + 2 + 1, // the status twice, one event for all switches
		}},
	}
}

func createMachine(ctx context.Context, p *population, name string) error {
	_, err := p.client.UselessV1alpha1().Machines(p.namespace).Create(ctx, &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.MachineSpec{Switches: switchesPerMachine},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating Machine %s/%s: %w", p.namespace, name, err)
	}
	return nil
}

func observeMachines(ctx context.Context, p *population, o *observer) error {
	machines := p.client.UselessV1alpha1().Machines(p.namespace)
	if err := o.follow(ctx, machinesSeen, metav1.ListOptions{}, machines.Watch, markOfMachine); err != nil {
		return err
	}
	return o.followEvents(ctx, p, "Machine")
}

// markOfMachine is allDown where nothing is to be done or to be told any more.
func markOfMachine(event watch.Event) (key, mark string) {
	machine := event.Object.(*v1alpha1.Machine)
	status := &machine.Status
	if status.Replicas == switchesPerMachine && status.Positions == strings.Repeat("d", switchesPerMachine) && status.Flip == nil &&
		status.ObservedGeneration == machine.Generation && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
		mark = allDown
	}
	return machine.Name, mark
}
