// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

const (
	switchesSeen = "switches"
	movedDown    = "moved down"
	downAgain    = "Ready with all switches down again"

	// flipPace is the default of flipDelaySeconds, and of flipIntervalSeconds.
	flipPace = 5 * time.Second
	// flipsGrace is how long after the last flip is due one that is missing is waited for.
	flipsGrace = time.Minute
	// watchTolerance is how much later than another change one may reach us, with hundreds of them at the same time.
	watchTolerance = 100 * time.Millisecond
)

// flipRules are those of each Machine of a run.
var flipRules = rules{flips: switchesPerMachine, delay: flipPace, interval: flipPace, tolerance: watchTolerance}

// flipsOutcome is what became of switches that were all flipped up at once.
type flipsOutcome struct {
	switches int
	pace     pace
	seconds  float64        // until the last was down, and that was written down
	purposes map[string]int // of the requests of another run, which was recorded
	recorded int            // flips of that run
}

// measureFlips flips all switches of many Machines up at once, and watches how the operator moves them down: once recorded,
// for the number of its requests, and once for the pace.
func (b *bench) measureFlips(ctx context.Context) (err error) {
	b.say("Recording the requests of %d flips", b.flips)
	proxy, kubeconfig, err := b.startProxy()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	recording := &operatorRun{bench: b, kubeconfig: kubeconfig, proxy: proxy}
	recorded, err := b.runFlips(ctx, recording)
	if err != nil {
		return fmt.Errorf("recording the operator's flips: %w", err)
	}
	if recorded.purposes, err = purposesOf(recording.recorded[1]); err != nil {
		return err
	}
	b.say("Flipping %d switches", b.flips)
	flips, err := b.runFlips(ctx, &operatorRun{bench: b, kubeconfig: b.kubeconfig()})
	if err != nil {
		return fmt.Errorf("a run of the operator with flips: %w", err)
	}
	flips.purposes, flips.recorded = recorded.purposes, recorded.pace.flips
	b.measured.flips = flips
	return nil
}

// runFlips leaves out what the requests were for.
func (b *bench) runFlips(ctx context.Context, run *operatorRun) (*flipsOutcome, error) {
	log := &switchLog{wasUp: map[string]bool{}}
	w := flipsOf(b.flips/switchesPerMachine, log)
	run.objects = w.count
	result, err := b.run(ctx, w, func(_ *population, fail func(error)) (contender, error) {
		run.fail = fail
		return run, nil
	})
	if err != nil {
		return nil, err
	}
	b.say("  operator, CPU %.2f s", run.usage.cpuSeconds)
	b.say("  %v", result.phases[1])
	return &flipsOutcome{
		switches: b.flips,
		pace:     paceOf(log.changes, w.count, flipRules),
		seconds:  result.phases[1].seconds[0],
	}, nil
}

// flipsOf is a cold start of Machines, after which all their switches are flipped.
func flipsOf(machines int, log *switchLog) *workload {
	w := machinesOf(machines)
	w.observe = func(ctx context.Context, p *population, o *observer) error {
		client := p.client.UselessV1alpha1()
		return errors.Join(
			o.follow(ctx, machinesSeen, metav1.ListOptions{}, client.Machines(p.namespace).Watch, markOfFlipped),
			o.followEvents(ctx, p, "Machine"),
			o.follow(ctx, switchesSeen, metav1.ListOptions{}, client.Switches(p.namespace).Watch, log.mark))
	}
	w.phases = append(w.phases, phase{
		name: "flips", disturb: flipsUp,
		milestones: []milestone{
			{kind: switchesSeen, mark: movedDown, each: switchesPerMachine, patience: flipRules.duration() + flipsGrace},
			{kind: machinesSeen, mark: downAgain, patience: flipsGrace},
		},
		events: w.phases[0].events,
	})
	return w
}

// flipsUp flips all switches, in parallel.
func flipsUp(ctx context.Context, p *population) (do func() error, err error) {
	client := p.client.UselessV1alpha1().Switches(p.namespace)
	switches, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the Switches of namespace %s: %w", p.namespace, err)
	}
	return func() error {
		return inParallel(ctx, len(switches.Items), func(ctx context.Context, i int) error {
			name := switches.Items[i].Name
			if _, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"position":"up"}}`), metav1.PatchOptions{}); err != nil {
				return fmt.Errorf("flipping Switch %s/%s: %w", p.namespace, name, err)
			}
			return nil
		})
	}, nil
}

// markOfFlipped is downAgain where there were flips.
func markOfFlipped(event watch.Event) (key, mark string) {
	key, mark = markOfMachine(event)
	if mark == allDown && event.Object.(*v1alpha1.Machine).Status.LastFlipTime != nil {
		mark = downAgain
	}
	return key, mark
}

// switchLog is what happened to switches, in the order in which it was watched.
type switchLog struct {
	mu      sync.Mutex
	changes []change
	wasUp   map[string]bool
}

// mark is the marker of switches: movedDown where one was up, is not any more, and no trace of it is left.
func (l *switchLog) mark(event watch.Event) (key, mark string) {
	c := change{at: time.Now()}
	sw := event.Object.(*v1alpha1.Switch)
	c.name, c.up = sw.Name, sw.Spec.Position != v1alpha1.PositionDown
	if owner := metav1.GetControllerOfNoCopy(sw); owner != nil {
		c.machine = owner.Name
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes = append(l.changes, c)
	l.wasUp[sw.Name] = l.wasUp[sw.Name] || c.up
	if !c.up && l.wasUp[sw.Name] && sw.Status.SeenAt == nil {
		mark = movedDown
	}
	return sw.Name, mark
}
