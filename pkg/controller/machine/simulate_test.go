// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

var (
	simulations   = flag.Int("simulations", 40, "how many seeds to simulate")
	firstSeed     = flag.Uint64("seed", 1, "the first seed to simulate")
	disturbances  = flag.Int("disturbances", 1000, "how many steps each simulation has before it calms down")
	maxStepsShown = flag.Int("steps", 60, "how many of the last steps of a simulation that failed to show")
)

// Whatever is stale, late, lost or killed: never two flips of a Machine within the interval, none before the delay, and in the
// end every switch is down and every status right.
func TestSimulation(t *testing.T) {
	total := 0
	for seed := *firstSeed; seed < *firstSeed+uint64(*simulations); seed++ {
		faults, steps, flips := simulate(t, seed, *disturbances)
		total += flips
		if len(faults) > 0 {
			t.Fatalf("go test -run %s -seed %d -simulations 1\n%s\nafter\n%s", t.Name(), seed,
				strings.Join(faults, "\n"), strings.Join(steps[max(len(steps)-*maxStepsShown, 0):], "\n"))
		}
	}
	t.Logf("%d flips in %d simulations", total, *simulations)
	if total < 5**simulations {
		t.Errorf("only %d flips in %d simulations: they show nothing", total, *simulations)
	}
}

// simulate returns what was wrong, and the steps that led to it.
func simulate(t *testing.T, seed uint64, disturbances int) (faults, steps []string, flips int) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{apiServer: newAPIServer(t), random: rand.New(rand.NewPCG(seed, 0))}
		s.apply(newMachine(3))
		s.apply(newMachine(2, named("n")))
		s.start()
		s.start()
		for range disturbances {
			synctest.Wait()
			s.disturb()
		}
		s.calm()
		faults, steps, flips = s.check(), s.steps, len(s.flips)
		s.kill(0)
		synctest.Wait()
	})
	return faults, steps, flips
}

// use is what a user does.
func (s *simulation) use() {
	var names []string
	for _, sw := range s.switches.List() {
		names = append(names, sw.Name)
	}
	machine := []string{"m", "n"}[s.random.IntN(2)]
	draw := s.random.IntN(20)
	if len(names) == 0 {
		draw = 19
	}
	var name string
	if len(names) > 0 {
		name = names[s.random.IntN(len(names))]
	}
	switch {
	case draw < 13:
		to := []string{"up", "up", "up", "left", "down"}[s.random.IntN(5)]
		s.note("user: %s %s", name, to)
		s.flip(name, to)
	case draw < 15:
		s.note("user: %s is annotated", name)
		s.change(name, func(sw *v1alpha1.Switch) { sw.Annotations = map[string]string{"note": fmt.Sprint(s.Version())} })
	case draw < 17:
		s.note("user: %s is labelled %s", name, machine)
		s.label(name, map[string]string{"machine": machine})
	case draw < 18:
		s.note("user: %s is deleted", name)
		s.erase(name)
	case draw < 19:
		switches := 1 + s.random.Int32N(5)
		s.note("user: %s is scaled to %d", machine, switches)
		s.scale(machine, switches)
	default:
		made := fmt.Sprint("hand-", s.Version())
		s.note("user: %s is made for %s", made, machine)
		s.make(switchOf(made, orphaned, labelled(machine), position("up")))
	}
}

// check returns what is not as it should be in the end, and each flip that came too early.
func (s *simulation) check() (faults []string) {
	last := map[string]time.Time{}
	for _, f := range s.flips {
		if before, ok := last[f.machine]; ok && f.at.Sub(before) < 5*time.Second {
			faults = append(faults, fmt.Sprintf("%s: flipped %s %v after the flip before", f.machine, f.name, f.at.Sub(before)))
		}
		last[f.machine] = f.at
		if f.at.Sub(f.seenAt) < 5*time.Second {
			faults = append(faults, fmt.Sprintf("%s: flipped %s %v after it was seen", f.machine, f.name, f.at.Sub(f.seenAt)))
		}
	}
	for _, name := range []string{"m", "n"} {
		machine := s.machine(name)
		var down int
		for _, sw := range s.switches.List() {
			if !metav1.IsControlledBy(sw, machine) {
				continue
			}
			if isUp(sw) || sw.Status.SeenAt != nil || sw.Labels["machine"] != name {
				faults = append(faults, fmt.Sprintf("%s has %s: %s, seen %v, %v", name, sw.Name, sw.Spec.Position, sw.Status.SeenAt, sw.Labels))
			}
			down++
		}
		want := fmt.Sprintf("%d %q, Ready=True Complete", down, strings.Repeat("d", down))
		status := *machine.Status.DeepCopy()
		status.LastFlipTime = nil
		if got := describeStatus(status); got != want || down != int(machine.Spec.Switches) {
			faults = append(faults, fmt.Sprintf("%d of %d switches and %s, want %s", down, machine.Spec.Switches, got, want))
		}
	}
	for _, sw := range s.switches.List() {
		if metav1.GetControllerOf(sw) == nil {
			faults = append(faults, "no Machine owns "+sw.Name)
		}
	}
	return faults
}
