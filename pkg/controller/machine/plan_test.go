// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

func TestDecide(t *testing.T) {
	hall := metav1.LabelSelector{MatchLabels: map[string]string{"room": "hall"}}
	for name, tc := range map[string]struct {
		o    *observed
		plan []string // the first one
		sync []string // requests and events, where the sync has more plans
	}{
		"a Machine without switches creates them": {
			o:    observe(newMachine(2)),
			plan: []string{"scale: create switch-pdxzk, switch-b566m", "decide again"},
			sync: []string{
				"create switch-b566m",
				"create switch-pdxzk",
				`status of m: 2 "dd", Ready=True Complete`,
				"event Normal SwitchCreated Created: switch-b566m, switch-pdxzk",
			},
		},
		"a Machine that is complete does nothing": {
			o: observe(newMachine(2, settled("dd")), switchOf("a"), switchOf("b")),
		},
		"a Machine that is being deleted does nothing": {
			o: observe(newMachine(2, func(m *v1alpha1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: noon} }),
				switchOf("a", labelled("n")), switchOf("b", orphaned)),
		},
		"a switch that is up is stamped": {
			o:    observe(newMachine(2, settled("dd")), switchOf("a"), switchOf("b", up)),
			plan: []string{"stamps: stamp b seen at 12:00:00", "decide again"},
			sync: []string{
				"stamp b seen 12:00:00",
				`status of m: 2 "du", Ready=True Complete`,
				"event Normal SeenUp Seen: b is up",
				"requeue after 5s",
			},
		},
		"a switch that was seen waits for its delay": {
			o:    observe(newMachine(2, settled("du")), switchOf("a"), switchOf("b", upSince(-2))),
			plan: []string{"requeue after 3s"},
		},
		"a switch that is due waits for the interval": {
			o:    observe(newMachine(2, settled("du"), lastFlip(-1)), switchOf("a"), switchOf("b", upSince(-60))),
			plan: []string{"requeue after 4s"},
		},
		"a switch that is due is reserved, then moved": {
			o: observe(newMachine(2, settled("du"), lastFlip(-5)), switchOf("a"), switchOf("b", upSince(-5), version("17"))),
			plan: []string{
				`end: write status: 2 "du", Ready=True Complete, flip of b, last flip 11:59:55`,
				"end: flip b at version 17",
				`end: event Normal Flipped "Moved switch b down"`,
				"requeue after 1s",
			},
		},
		"of two the one that was seen first is moved": {
			o: observe(newMachine(2, settled("uu")), switchOf("a", upSince(-5)), switchOf("b", upSince(-6))),
			plan: []string{
				`end: write status: 2 "uu", Ready=True Complete, flip of b`,
				"end: flip b at version 10",
				`end: event Normal Flipped "Moved switch b down"`,
				"requeue after 1s",
			},
		},
		"of two that were seen at the same time the first by name is moved": {
			o: observe(newMachine(2, settled("uu")), switchOf("b", upSince(-5)), switchOf("a", upSince(-5))),
			plan: []string{
				`end: write status: 2 "uu", Ready=True Complete, flip of a`,
				"end: flip a at version 10",
				`end: event Normal Flipped "Moved switch a down"`,
				"requeue after 1s",
			},
		},
		"an open reservation is completed, with its own version": {
			o:    observe(newMachine(2, settled("uu"), reservedFlip("b", "17")), switchOf("a", upSince(-60)), switchOf("b", upSince(-5), version("17"))),
			plan: []string{"end: flip b at version 17", `end: event Normal Flipped "Moved switch b down"`, "requeue after 1s"},
		},
		"a cache older than the reservation closes nothing": {
			o:    observe(newMachine(2, settled("uu"), reservedFlip("b", "17")), switchOf("a", upSince(-60)), switchOf("b", upSince(-5), version("16"))),
			plan: []string{"end: flip b at version 17", `end: event Normal Flipped "Moved switch b down"`, "requeue after 1s"},
		},
		"a cache without the reserved Switch, older than the reservation, closes nothing": {
			o:    observe(newMachine(1, settled("u"), reservedFlip("b", "101")), switchOf("a", upSince(-60))),
			plan: []string{"end: flip b at version 101", `end: event Normal Flipped "Moved switch b down"`, "requeue after 1s"},
		},
		"a flip that is seen is closed, and the interval begins": {
			o: observe(newMachine(2, settled("uu"), reservedFlip("b", "17"), lastFlip(-60)), switchOf("a", upSince(-60)),
				switchOf("b", stampedAt(-5), version("18"))),
			plan: []string{"stamps: stamp b down", "decide again"},
			sync: []string{"stamp b down", `status of m: 2 "ud", Ready=True Complete, last flip 12:00:00`, "requeue after 5s"},
		},
		"a change that is no flip closes the reservation too": {
			o:    observe(newMachine(1, settled("u"), reservedFlip("b", "17")), switchOf("b", upSince(-60), version("18"))),
			plan: []string{`end: write status: 1 "u", Ready=True Complete, last flip 12:00:00`, "requeue after 5s"},
		},
		"a Switch that is gone closes its reservation": {
			o:    observe(newMachine(1, settled("u"), reservedFlip("b", "100")), switchOf("a", upSince(-60))),
			plan: []string{`end: write status: 1 "u", Ready=True Complete, last flip 12:00:00`, "requeue after 5s"},
		},
		"a switch that was flipped up again before its flip was closed waits for its delay again": {
			o:    observe(newMachine(1, settled("u"), reservedFlip("b", "17")), switchOf("b", upSince(-60), position("down"), position("up"), version("19"))),
			plan: []string{"stamps: stamp b seen at 12:00:00", "decide again"},
			sync: []string{
				"stamp b seen 12:00:00",
				`status of m: 1 "u", Ready=True Complete, last flip 12:00:00`,
				"event Normal SeenUp Seen: b is up",
				"requeue after 5s",
			},
		},
		"a switch that was flipped up again after its flip was closed waits for its delay again": {
			o:    observe(newMachine(1, settled("u"), lastFlip(-8)), switchOf("b", upSince(-60), position("down"), position("up"), version("19"))),
			plan: []string{"stamps: stamp b seen at 12:00:00", "decide again"},
			sync: []string{"stamp b seen 12:00:00", "event Normal SeenUp Seen: b is up", "requeue after 5s"},
		},
		"a switch that another client moves while it is up is not forgotten": {
			o: observe(newMachine(1, settled("l"), lastFlip(-8)), switchOf("b", upSince(-60), position("left"), version("19"))),
			plan: []string{
				`end: write status: 1 "l", Ready=True Complete, flip of b, last flip 11:59:52`,
				"end: flip b at version 19",
				`end: event Normal Flipped "Moved switch b down"`,
				"requeue after 1s",
			},
		},
		"a switch that was seen in the future is seen now": {
			o:    observe(newMachine(1, settled("u")), switchOf("b", upSince(3600))),
			plan: []string{"stamps: stamp b seen at 12:00:00", "decide again"},
			sync: []string{"stamp b seen 12:00:00", "requeue after 5s"},
		},
		"a flip in the future is now": {
			o:    observe(newMachine(1, settled("u"), lastFlip(3600)), switchOf("b", upSince(-60))),
			plan: []string{`end: write status: 1 "u", Ready=True Complete, last flip 12:00:00`, "requeue after 5s"},
		},
		"a flip in the future does not matter while all is down": {
			o: observe(newMachine(1, settled("d"), lastFlip(3600)), switchOf("b")),
		},
		"a switch that does not match is released and replaced": {
			o:    observe(newMachine(1, settled("d")), switchOf("a", labelled("n"))),
			plan: []string{"scale: release a", "decide again"},
			sync: []string{
				"release a",
				"create switch-pdxzk",
				"event Normal Released Released, because the selector no longer matches: a",
				"event Normal SwitchCreated Created: switch-pdxzk",
			},
		},
		"a switch that matches is adopted, and the newest of too many deleted": {
			o:    observe(newMachine(1, settled("d")), switchOf("a", created(-60)), switchOf("b", orphaned, created(-90))),
			plan: []string{"ask: read the Machine"},
			sync: []string{
				"get machines m",
				"adopt b",
				"delete a by UID",
				"event Normal Adopted Adopted: b",
				"event Normal SwitchDeleted Deleted: a",
			},
		},
		"of too many the newest go, the last by name first": {
			o:    observe(newMachine(1, settled("dddd")), switchOf("a"), switchOf("b"), switchOf("c", created(-90)), switchOf("d", created(-30))),
			plan: []string{"scale: delete d", "scale: delete b", "scale: delete a", "decide again"},
			sync: []string{
				"delete a by UID",
				"delete b by UID",
				"delete d by UID",
				`status of m: 1 "d", Ready=True Complete`,
				"event Normal SwitchDeleted Deleted: a, b, d",
			},
		},
		"the flip of a Switch that has to go is not done": {
			o:    observe(newMachine(1, settled("du"), reservedFlip("b", "17")), switchOf("a"), switchOf("b", upSince(-5), version("17"))),
			plan: []string{"scale: delete b", "decide again"},
			sync: []string{
				"delete b by UID",
				`status of m: 1 "d", Ready=True Complete, flip of b`,
				"event Normal SwitchDeleted Deleted: b",
				"requeue after 1s",
			},
		},
		"a lever that is up is seen": {
			o: observe(newMachine(1, settled("d"), withLever("up")), switchOf("a")),
			plan: []string{
				`end: write status: 1 "d", Ready=True Complete, lever seen 12:00:00`,
				`end: event Normal SeenUp "Seen: the lever is up"`,
				"requeue after 5s",
			},
		},
		"a lever that is due is moved down, and its time cleared with it": {
			o:    observe(newMachine(1, settled("d"), leverSeen("up", -5)), switchOf("a")),
			plan: []string{"lever: move the lever down", "decide again"},
			sync: []string{
				"lever of m down",
				`status of m: 1 "d", Ready=True Complete`,
				"event Normal Flipped Moved the lever down",
			},
		},
		"a lever that another client moved down is forgotten": {
			o:    observe(newMachine(1, settled("d"), leverSeen("down", -2)), switchOf("a")),
			plan: []string{`end: write status: 1 "d", Ready=True Complete`},
		},
		"a selector that new labels do not satisfy creates nothing": {
			o: observe(newMachine(1, withSelector(metav1.LabelSelector{MatchLabels: hall.MatchLabels,
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "floor", Operator: metav1.LabelSelectorOpExists}}}))),
			plan: []string{`end: write status: 0 "", Ready=False InvalidSelector`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.plan, describe(tc.o)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if tc.sync == nil {
				return
			}
			synctest.Test(t, func(t *testing.T) {
				got, after, err := newWorld(t, tc.o.machine, slices.Concat(tc.o.owned, tc.o.strays, tc.o.orphans)...).sync()
				if after != 0 {
					got = append(got, "requeue after "+after.String())
				}
				if err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(tc.sync, got); diff != "" {
					t.Errorf("sync (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRejectionHoldsUpNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newMachine(2, settled("u")), switchOf("a", upSince(-5)))
		quota := apierrors.NewForbidden(v1alpha1.Resource("switches"), "x", errors.New("exceeded quota"))
		w.failIf(failing("create", 1, quota))
		got, after, err := w.sync()
		if !apierrors.IsForbidden(err) || after != time.Second {
			t.Errorf("requeue after %v, error %v, want 1s and the rejection: the loop retries", after, err)
		}
		want := []string{"create switch-pdxzk: " + quota.Error(), `status of m: 1 "u", Ready=False CreateFailed, flip of a`, "flip a down",
			"event Warning FailedCreate " + quota.Error(), "event Normal Flipped Moved switch a down"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

func TestReservation(t *testing.T) {
	for name, tc := range map[string]struct {
		o    *observed
		live bool
		want reservation
	}{
		"the same version":                        {observe(newMachine(1, reservedFlip("a", "x")), switchOf("a", version("x"))), false, openReservation},
		"another version":                         {observe(newMachine(1, reservedFlip("a", "x")), switchOf("a", version("y"))), false, closedReservation},
		"not in the cache":                        {observe(newMachine(1, reservedFlip("a", "x"))), false, unknownReservation},
		"not at the API server":                   {observe(newMachine(1, reservedFlip("a", "x"))), true, closedReservation},
		"at the API server, in the same version":  {observe(newMachine(1, reservedFlip("a", "x")), switchOf("a", version("x"))), true, openReservation},
		"longer versions are newer":               {observe(newMachine(1, reservedFlip("a", "9")), switchOf("a", version("10"))), false, closedReservation},
		"a Switch of the same name, not the same": {observe(newMachine(1, reservedFlip("b", "17")), switchOf("a")), false, closedReservation},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.o.reservedIsLive = tc.live; reservationOf(tc.o) != tc.want {
				t.Errorf("reservation %d, want %d", reservationOf(tc.o), tc.want)
			}
		})
	}
}

// Other names would create every switch once more.
func TestSlotNamesNeverChange(t *testing.T) {
	var got []string
	for slot := range 6 {
		got = append(got, slotName("5f0c3a52-7f7c-4b0e-9d52-2f4ad5f0f7a1", slot))
	}
	want := []string{"switch-pr76r", "switch-h8xwt", "switch-kqx9b", "switch-qlsgf", "switch-8rnhb", "switch-98ftt"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
