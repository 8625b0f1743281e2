// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/useless/v1alpha1"
)

func TestWhatOneSyncDoes(t *testing.T) {
	hall := metav1.LabelSelector{MatchLabels: map[string]string{"room": "hall"}}
	for name, tc := range map[string]struct {
		o    *observed
		want []string
	}{
		"a Machine without switches creates them": {
			o: observe(newMachine(2)),
			want: []string{"create switch-pdxzk, switch-b566m", `event Normal SwitchCreated "Created: switch-b566m, switch-pdxzk"`,
				`write status: 2 "dd", Ready=True Complete`},
		},
		"a Machine that is complete does nothing": {o: observe(newMachine(2, settled("dd")), switchOf("a"), switchOf("b"))},
		"a Machine that is being deleted does nothing": {
			o: observe(newMachine(2, func(m *v1alpha1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: noon} }), switchOf("a", labelled("n")), switchOf("b", orphaned)),
		},
		"a switch that is up is stamped": {
			o: observe(newMachine(2, settled("dd")), switchOf("a"), switchOf("b", up)),
			want: []string{"stamp b seen at 12:00:00", `event Normal SeenUp "Seen: b is up"`,
				`write status: 2 "du", Ready=True Complete`, "again after 5s"},
		},
		"a switch that was seen waits for its delay": {
			o:    observe(newMachine(2, settled("du")), switchOf("a"), switchOf("b", upSince(-2))),
			want: []string{"again after 3s"},
		},
		"a switch that is due waits for the interval": {
			o:    observe(newMachine(2, settled("du"), lastFlip(-1)), switchOf("a"), switchOf("b", upSince(-60))),
			want: []string{"again after 4s"},
		},
		"a switch that is due is reserved, then moved": {
			o: observe(newMachine(2, settled("du"), lastFlip(-5)), switchOf("a"), switchOf("b", upSince(-5), version("17"))),
			want: []string{`write status: 2 "du", Ready=True Complete, flip of b, last flip 11:59:55`, "flip b at version 17",
				`event Normal Flipped "Moved switch b down"`, "again after 1s"},
		},
		"of two the one that was seen first is moved": {
			o: observe(newMachine(2, settled("uu")), switchOf("a", upSince(-5)), switchOf("b", upSince(-6))),
			want: []string{`write status: 2 "uu", Ready=True Complete, flip of b`, "flip b at version 10",
				`event Normal Flipped "Moved switch b down"`, "again after 1s"},
		},
		"of two that were seen at once the first by name is moved": {
			o: observe(newMachine(2, settled("uu")), switchOf("b", upSince(-5)), switchOf("a", upSince(-5))),
			want: []string{`write status: 2 "uu", Ready=True Complete, flip of a`, "flip a at version 10",
				`event Normal Flipped "Moved switch a down"`, "again after 1s"},
		},
		"an open reservation is completed, with its own version": {
			o:    observe(newMachine(2, settled("uu"), reservedFlip("b", "17")), switchOf("a", upSince(-60)), switchOf("b", upSince(-5), version("17"))),
			want: []string{"flip b at version 17", `event Normal Flipped "Moved switch b down"`, "again after 1s"},
		},
		"a cache that is behind the reservation closes nothing": {
			o:    observe(newMachine(2, settled("uu"), reservedFlip("b", "17")), switchOf("a", upSince(-60)), switchOf("b", upSince(-5), version("16"))),
			want: []string{"flip b at version 17", "again after 1s"},
		},
		"a cache that is behind the reservation of a Switch that it has not seen closes nothing": {
			o:    observe(newMachine(1, settled("u"), reservedFlip("b", "101")), switchOf("a", upSince(-60))),
			want: []string{"flip b at version 101", "again after 1s"},
		},
		"a flip that is seen is closed, and the interval begins": {
			o: observe(newMachine(2, settled("uu"), reservedFlip("b", "17"), lastFlip(-60)), switchOf("a", upSince(-60)),
				switchOf("b", stampedAt(-5), version("18"))),
			want: []string{"stamp b down", `write status: 2 "ud", Ready=True Complete, last flip 12:00:00`, "again after 5s"},
		},
		"a change that is no flip closes the reservation too": {
			o:    observe(newMachine(1, settled("u"), reservedFlip("b", "17")), switchOf("b", upSince(-60), version("18"))),
			want: []string{`write status: 1 "u", Ready=True Complete, last flip 12:00:00`, "again after 5s"},
		},
		"a Switch that is gone closes its reservation": {
			o:    observe(newMachine(1, settled("u"), reservedFlip("b", "100")), switchOf("a", upSince(-60))),
			want: []string{`write status: 1 "u", Ready=True Complete, last flip 12:00:00`, "again after 5s"},
		},
		"a switch that was flipped up again before its flip was closed waits anew": {
			o: observe(newMachine(1, settled("u"), reservedFlip("b", "17")), switchOf("b", upSince(-60), position("down"), position("up"), version("19"))),
			want: []string{"stamp b seen at 12:00:00", `event Normal SeenUp "Seen: b is up"`,
				`write status: 1 "u", Ready=True Complete, last flip 12:00:00`, "again after 5s"},
		},
		"a switch that was flipped up again after its flip was closed waits anew": {
			o:    observe(newMachine(1, settled("u"), lastFlip(-8)), switchOf("b", upSince(-60), position("down"), position("up"), version("19"))),
			want: []string{"stamp b seen at 12:00:00", `event Normal SeenUp "Seen: b is up"`, "again after 5s"},
		},
		"a switch that somebody moves from here to there is not forgotten": {
			o: observe(newMachine(1, settled("l"), lastFlip(-8)), switchOf("b", upSince(-60), position("left"), version("19"))),
			want: []string{`write status: 1 "l", Ready=True Complete, flip of b, last flip 11:59:52`, "flip b at version 19",
				`event Normal Flipped "Moved switch b down"`, "again after 1s"},
		},
		"a switch that was seen in the future is seen now": {
			o:    observe(newMachine(1, settled("u")), switchOf("b", upSince(3600))),
			want: []string{"stamp b seen at 12:00:00", "again after 5s"},
		},
		"a flip in the future is now": {
			o:    observe(newMachine(1, settled("u"), lastFlip(3600)), switchOf("b", upSince(-60))),
			want: []string{`write status: 1 "u", Ready=True Complete, last flip 12:00:00`, "again after 5s"},
		},
		"a flip in the future is nobody's concern while all is down": {o: observe(newMachine(1, settled("d"), lastFlip(3600)), switchOf("b"))},
		"a switch that does not match is released and replaced": {
			o: observe(newMachine(1, settled("d")), switchOf("a", labelled("n"))),
			want: []string{"release a", "create switch-pdxzk", `event Normal Released "Released, because the selector no longer matches: a"`,
				`event Normal SwitchCreated "Created: switch-pdxzk"`},
		},
		"a switch that matches is adopted, and the newest of too many deleted": {
			o:    observe(newMachine(1, settled("d")), switchOf("a", created(-60)), switchOf("b", orphaned, created(-90))),
			want: []string{"confirm the Machine", "adopt b", "delete a", `event Normal Adopted "Adopted: b"`, `event Normal SwitchDeleted "Deleted: a"`},
		},
		"of too many the newest go, the last by name first": {
			o: observe(newMachine(1, settled("dddd")), switchOf("a"), switchOf("b"), switchOf("c", created(-90)), switchOf("d", created(-30))),
			want: []string{"delete d", "delete b", "delete a", `event Normal SwitchDeleted "Deleted: a, b, d"`,
				`write status: 1 "d", Ready=True Complete`},
		},
		"the flip of a Switch that has to go is not done": {
			o: observe(newMachine(1, settled("du"), reservedFlip("b", "17")), switchOf("a"), switchOf("b", upSince(-5), version("17"))),
			want: []string{"delete b", `event Normal SwitchDeleted "Deleted: b"`,
				`write status: 1 "d", Ready=True Complete, flip of b`, "again after 1s"},
		},
		"a lever that is up is seen": {
			o: observe(newMachine(1, settled("d"), withLever("up")), switchOf("a")),
			want: []string{`write status: 1 "d", Ready=True Complete, lever seen 12:00:00`, `event Normal SeenUp "Seen: the lever is up"`,
				"again after 5s"},
		},
		"a lever that is due is moved down, and its time cleared with it": {
			o: observe(newMachine(1, settled("d"), leverSeen("up", -5)), switchOf("a")),
			want: []string{"move the lever down", `event Normal Flipped "Moved the lever down"`,
				`write status: 1 "d", Ready=True Complete`},
		},
		"a lever that somebody moved down is forgotten": {
			o:    observe(newMachine(1, settled("d"), leverSeen("down", -2)), switchOf("a")),
			want: []string{`write status: 1 "d", Ready=True Complete`},
		},
		"a selector that new labels do not satisfy creates nothing": {
			o: observe(newMachine(1, withSelector(metav1.LabelSelector{MatchLabels: hall.MatchLabels,
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "floor", Operator: metav1.LabelSelectorOpExists}}}))),
			want: []string{`write status: 0 "", Ready=False InvalidSelector`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rehearsal{observed: tc.o}
			got, _, err := r.sync()
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARefusalIsShownAndTheRestIsDoneAllTheSame(t *testing.T) {
	r := &rehearsal{observed: observe(newMachine(2, settled("u")), switchOf("a", upSince(-5))), refuse: errors.New("exceeded quota")}
	got, _, err := r.sync()
	if !errors.Is(err, r.refuse) {
		t.Errorf("error %v, want the refusal: the loop is to try again", err)
	}
	want := []string{"create switch-pdxzk", `write status: 1 "u", Ready=False CreateFailed, flip of a`,
		`event Warning FailedCreate "exceeded quota"`, "flip a at version 10", `event Normal Flipped "Moved switch a down"`, "again after 1s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestWhereVersionsCannotBeComparedAnotherOneIsANewerOne(t *testing.T) {
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
			if tc.o.live = tc.live; reservationOf(tc.o) != tc.want {
				t.Errorf("reservation %d, want %d", reservationOf(tc.o), tc.want)
			}
		})
	}
}

// The names are those of the golden file for ever: others would create every switch once more.
func TestTheNamesOfSlotsNeverChange(t *testing.T) {
	var got []string
	for slot := range 6 {
		got = append(got, slotName("5f0c3a52-7f7c-4b0e-9d52-2f4ad5f0f7a1", slot))
	}
	want := []string{"switch-pr76r", "switch-h8xwt", "switch-kqx9b", "switch-qlsgf", "switch-8rnhb", "switch-98ftt"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
