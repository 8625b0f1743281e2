// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// worlds are combinations of what may be observed.
func worlds() map[string]func() *rehearsal {
	machines := map[string][]machineOption{
		"new": nil, "settled": {settled("dd")}, "lever up": {settled("dd"), withLever("up")}, "lever due": {settled("dd"), leverSeen("up", -9)},
		"just flipped": {settled("dd"), lastFlip(-2)}, "flipped in the future": {settled("dd"), lastFlip(900)},
		"reserved": {settled("uu"), reservedFlip("a", "17")}, "reserved and gone": {settled("uu"), reservedFlip("gone", "17")},
		"refused": {settled("dd"), readyIs("False", "CreateFailed", "quota")},
	}
	firsts := map[string][]switchOption{
		"down": nil, "up": {up}, "seen": {upSince(-2)}, "due": {upSince(-9), version("17")}, "changed": {upSince(-9), version("18")},
		"moved": {stampedAt(-9), version("18")}, "up again": {upSince(-60), position("down"), position("up"), version("19")},
		"seen in the future": {upSince(900)}, "of another label": {upSince(-9), labelled("n")}, "an orphan": {orphaned, up},
	}
	all := map[string]func() *rehearsal{}
	for machineName, machine := range machines {
		for firstName, first := range firsts {
			for secondName, second := range firsts {
				for _, switches := range []int32{1, 2, 3} {
					all[fmt.Sprintf("%s, %d, a is %s, b is %s", machineName, switches, firstName, secondName)] = func() *rehearsal {
						return &rehearsal{observed: observe(newMachine(switches, machine...), switchOf("a", first...), switchOf("b", second...))}
					}
				}
			}
		}
	}
	return all
}

// Deciding anew after a plan took effect gives the rest of the way, never the same steps again. Then time alone makes a
// difference, and only when the plan has asked for it; in the end every switch is down.
func TestFromEveryStateThePlansComeToRestAndWakeOnlyWhenTheyAskedTo(t *testing.T) {
	for name, build := range worlds() {
		r := build()
		var path []string
		rest := func() time.Duration {
			for round := 0; ; round++ {
				steps, after, err := r.sync()
				path = append(path, steps...)
				switch {
				case err != nil || round == 6:
					t.Fatalf("%s: no rest after %d rounds: %v\n%q", name, round, err, path)
				case len(steps) == 0 || len(steps) == 1 && after > 0:
					return after
				}
			}
		}
		for wakes := 0; ; wakes++ {
			after := rest()
			if after == 0 {
				break
			}
			if wakes == 20 {
				t.Fatalf("%s: no end\n%q", name, path)
			}
			r.now = r.now.Add(after - time.Microsecond)
			if steps, _, _ := r.sync(); len(steps) > 1 {
				t.Fatalf("%s: a moment before the plan asks to look again it does %q\n%q", name, steps, path)
			}
			r.now = r.now.Add(time.Microsecond)
		}
		for _, sw := range r.owned {
			if isUp(sw) || sw.Status.SeenAt != nil {
				t.Fatalf("%s: %s is %s in the end\n%q", name, sw.Name, sw.Spec.Position, path)
			}
		}
		if len(r.owned) != int(r.machine.Spec.Switches) || leverIsUp(r.machine) || r.machine.Status.Flip != nil {
			t.Fatalf("%s: %d switches, lever %q, flip %v in the end\n%q", name, len(r.owned), r.machine.Spec.SwitchPosition, r.machine.Status.Flip, path)
		}
		for i := 1; i < len(r.flips); i++ {
			if pause := r.flips[i].Sub(r.flips[i-1]); pause < 5*time.Second {
				t.Fatalf("%s: two flips within %v\n%q", name, pause, path)
			}
		}
	}
}

// Switches come from caches and lists in any order.
func TestThePlanDoesNotDependOnTheOrderOfTheSwitches(t *testing.T) {
	var switches []*v1alpha1.Switch
	for i, options := range [][]switchOption{{up}, {upSince(-9)}, {upSince(-9)}, {}, {labelled("n")}, {orphaned}, {orphaned, up}, {created(-5)}} {
		sw := switchOf(fmt.Sprintf("s%d", i), options...)
		sw.UID = types.UID(fmt.Sprint("uid-", i))
		switches = append(switches, sw)
	}
	sync := func() string {
		o := observe(newMachine(3), switches...)
		r := &rehearsal{observed: o}
		steps, _, _ := r.sync()
		return fmt.Sprintf("%q", steps[len(steps)-4:])
	}
	want := sync()
	for seed := range uint64(200) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(switches), func(i, j int) { switches[i], switches[j] = switches[j], switches[i] })
		if got := sync(); got != want {
			t.Fatalf("seed %d: %s, want %s", seed, got, want)
		}
	}
}
