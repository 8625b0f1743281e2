// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// worlds returns combinations of what may be observed.
func worlds() map[string]func(*testing.T) *world {
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
	all := map[string]func(*testing.T) *world{}
	for machineName, machine := range machines {
		for firstName, first := range firsts {
			for _, secondName := range []string{"down", "up", "due", "of another label", "an orphan"} {
				second := firsts[secondName]
				for _, switches := range []int32{1, 3} {
					all[fmt.Sprintf("%s, %d, a is %s, b is %s", machineName, switches, firstName, secondName)] = func(t *testing.T) *world {
						return newWorld(t, newMachine(switches, machine...), switchOf("a", first...), switchOf("b", second...))
					}
				}
			}
		}
	}
	return all
}

// Repeating a sync gives the rest of the way, never the same steps again. Then time alone makes a difference, and only when the plan has
// asked for it; in the end every switch is down.
func TestSyncsComeToRest(t *testing.T) {
	for name, build := range worlds() {
		synctest.Test(t, func(t *testing.T) { comesToRest(t, name, build(t)) })
	}
}

func comesToRest(t *testing.T, name string, w *world) {
	var path []string
	rest := func() time.Duration {
		for round := 0; ; round++ {
			requests, after, err := w.sync()
			path = append(path, requests...)
			switch {
			case err != nil && !apierrors.IsConflict(err) || round == 6:
				t.Fatalf("%s: no rest after %d rounds: %v\n%q", name, round, err, path)
			case len(requests) == 0:
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
		time.Sleep(after - time.Microsecond)
		if requests, _, _ := w.sync(); len(requests) > 0 {
			t.Fatalf("%s: a moment before the plan is due it does %q\n%q", name, requests, path)
		}
		time.Sleep(time.Microsecond)
	}
	machine := w.machine("m")
	owned := w.ownedBy(machine.UID)
	for _, name := range owned {
		if sw := w.theSwitch(name); isUp(sw) || sw.Status.SeenAt != nil {
			t.Fatalf("%s: %s is %s in the end\n%q", name, sw.Name, sw.Spec.Position, path)
		}
	}
	if len(owned) != int(machine.Spec.Switches) || leverIsUp(machine) || machine.Status.Flip != nil {
		t.Fatalf("%s: %d switches, lever %q, flip %v in the end\n%q", name, len(owned), machine.Spec.SwitchPosition, machine.Status.Flip, path)
	}
	for i := 1; i < len(w.flips); i++ {
		if pause := w.flips[i].at.Sub(w.flips[i-1].at); pause < 5*time.Second {
			t.Fatalf("%s: two flips within %v\n%q", name, pause, path)
		}
	}
}

// Switches come from caches and lists in any order.
func TestOrderOfSwitchesDoesNotMatter(t *testing.T) {
	var switches []*v1alpha1.Switch
	for i, options := range [][]switchOption{{up}, {upSince(-9)}, {upSince(-9)}, {}, {labelled("n")}, {orphaned}, {orphaned, up}, {created(-5)}} {
		sw := switchOf(fmt.Sprintf("s%d", i), options...)
		sw.UID = types.UID(fmt.Sprint("uid-", i))
		switches = append(switches, sw)
	}
	sync := func() (requests string) {
		synctest.Test(t, func(t *testing.T) {
			lines, _, err := newWorld(t, newMachine(3), switches...).sync()
			if err != nil {
				t.Error(err)
			}
			slices.Sort(lines[:4]) // release and adopt run concurrently
			requests = fmt.Sprintf("%q", lines)
		})
		return requests
	}
	want := sync()
	for seed := range uint64(50) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(switches), func(i, j int) { switches[i], switches[j] = switches[j], switches[i] })
		if got := sync(); got != want {
			t.Fatalf("seed %d: %s, want %s", seed, got, want)
		}
	}
}
