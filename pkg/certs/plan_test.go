// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// kinds are the types of the steps.
func kinds(plan Plan) []string {
	var all []string
	for _, step := range plan.Steps {
		all = append(all, reflect.TypeOf(step).Name())
	}
	return all
}

// rotating is a fixture whose next authority has been made, and is in no target yet.
func rotating(t testing.TB) *fixture {
	f := settled(t)
	for f.Now.Before(renewalTime(f.State.Authorities[0].Certificate)) {
		f.pass(Decide(f.Observed).RequeueAfter)
		if plan := f.act(); len(f.State.Authorities) == 2 {
			return f
		} else if len(plan.Steps) == 0 {
			t.Fatalf("nothing to do at %s, when something was to be", f.Now)
		}
	}
	t.Fatal("no new authority when two thirds of the old one's life are over")
	return nil
}

// recordedRotation is a fixture whose next authority was seen in all targets.
func recordedRotation(t testing.TB) *fixture {
	f := rotating(t).inject()
	if got := f.act(); !cmp.Equal(kinds(got), []string{"RecordDistribution"}) {
		t.Fatalf("steps when all targets carry the next authority: %v", got.Steps)
	}
	return f
}

// retiring is a fixture some time before all that the old authority signed has expired.
func retiring(t testing.TB, before time.Duration) *fixture {
	f := recordedRotation(t).pass(DefaultLifetimes.wait()).settle()
	gone := f.State.Authorities[0].SignedUntil.Add(DefaultLifetimes.apart())
	for {
		next := Decide(f.Observed).RequeueAfter
		if !f.Now.Add(next).Before(gone) {
			return f.pass(gone.Add(-before).Sub(f.Now))
		}
		f.pass(next).settle()
	}
}

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		given func(t testing.TB) *fixture
		want  []string
		again time.Duration
	}{
		"with nothing, authority and certificate are made in one write": {
			given: func(t testing.TB) *fixture { return newFixture(t) },
			want:  []string{"CreateAuthority", "IssueServing"},
		},
		"a fresh certificate is left alone until two thirds of its life are over": {
			given: settled,
			again: (DefaultLifetimes.Serving+DefaultLifetimes.apart())/3*2 - DefaultLifetimes.apart(),
		},
		"a certificate is renewed at two thirds of its life": {
			given: func(t testing.TB) *fixture { return settled(t).pass(60 * day) },
			want:  []string{"IssueServing"},
		},
		"a certificate for other names is replaced immediately": {
			given: func(t testing.TB) *fixture {
				f := settled(t)
				f.Names = append(Names{"another.example.com"}, names...)
				return f
			},
			want: []string{"IssueServing"},
		},
		"names in another order, or said twice, are no change": {
			given: func(t testing.TB) *fixture {
				f := settled(t)
				f.Names = Names{names[2], names[1], names[0], names[1]}
				return f
			},
			again: (DefaultLifetimes.Serving+DefaultLifetimes.apart())/3*2 - DefaultLifetimes.apart(),
		},
		"a new authority does not sign while a target lacks it": {
			given: func(t testing.TB) *fixture {
				f := rotating(t)
				f.Targets = f.inject().Targets
				f.Targets[1].entries = []entry{{}}
				return f.pass(20 * time.Hour)
			},
			again: -1,
		},
		"that all targets carry a new authority is recorded first": {
			given: func(t testing.TB) *fixture { return rotating(t).inject() },
			want:  []string{"RecordDistribution"},
		},
		"a new authority does not sign before clients had their time": {
			given: func(t testing.TB) *fixture { return recordedRotation(t).pass(DefaultLifetimes.wait() - time.Second) },
			again: time.Second,
		},
		"after that it signs, and the old key goes": {
			given: func(t testing.TB) *fixture { return recordedRotation(t).pass(DefaultLifetimes.wait()) },
			want:  []string{"IssueServing", "ForgetKey"},
		},
		"a new authority does not sign if a target lost it meanwhile": {
			given: func(t testing.TB) *fixture {
				f := recordedRotation(t).pass(DefaultLifetimes.wait())
				f.Targets = []Target{f.Targets[0], {Name: "reverted", entries: make([]entry, 1)}}
				return f
			},
			again: -1,
		},
		"a record from a clock that was years ahead is replaced": {
			given: func(t testing.TB) *fixture {
				f := recordedRotation(t)
				for i := range f.State.Authorities {
					f.State.Authorities[i].Distributed = f.Now.Add(1000 * day)
				}
				return f
			},
			want: []string{"RecordDistribution"},
		},
		"the old authority stays while what it signed may be in use": {
			given: func(t testing.TB) *fixture { return retiring(t, time.Second) },
			again: time.Second,
		},
		"the old authority goes when all that it signed has expired": {
			given: func(t testing.TB) *fixture { return retiring(t, 0) },
			want:  []string{"DropAuthority"},
		},
		"an authority whose key is lost is followed by another, without a break": {
			given: func(t testing.TB) *fixture {
				f := settled(t)
				f.State.Authorities[0].Key = Key{}
				return f
			},
			want: []string{"CreateAuthority"},
		},
		"a lost certificate is issued again by the authority that clients trust": {
			given: func(t testing.TB) *fixture {
				f := settled(t)
				f.State.Serving = nil
				return f
			},
			want: []string{"IssueServing"},
		},
		"what expired without a sync is issued again by the authority that is left": {
			given: func(t testing.TB) *fixture { return settled(t).pass(200 * day) },
			want:  []string{"IssueServing"},
		},
		"if all expired without a sync, all is issued again": {
			given: func(t testing.TB) *fixture { return settled(t).pass(2000 * day) },
			want:  []string{"CreateAuthority", "IssueServing"},
		},
		"a certificate of a foreign authority is replaced": {
			given: func(t testing.TB) *fixture {
				f := settled(t)
				f.State.Serving = settled(t).State.Serving
				return f
			},
			want: []string{"IssueServing"},
		},
		"certificates from a clock that was years ahead are replaced": {
			given: func(t testing.TB) *fixture { return settled(t).pass(-2000 * day) },
			want:  []string{"CreateAuthority", "IssueServing"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := test.given(t)
			plan := Decide(f.Observed)
			if diff := cmp.Diff(test.want, kinds(plan)); diff != "" {
				t.Errorf("steps (-want +got):\n%s%v", diff, plan.Steps)
			}
			if test.again >= 0 && plan.RequeueAfter != test.again {
				t.Errorf("looks again after %s, want %s", plan.RequeueAfter, test.again)
			}
		})
	}
}

func TestAPlanThatWasDoneLeavesNothingToDo(t *testing.T) {
	for name, given := range map[string]func(testing.TB) *fixture{"nothing": newFixture, "rotating": rotating, "recorded": recordedRotation} {
		f := given(t).settle()
		if plan := Decide(f.Observed); len(plan.Steps)+len(plan.Inject) > 0 || plan.RequeueAfter <= 0 {
			t.Errorf("from %s: the plan of a settled state is %+v", name, plan)
		}
	}
}

func TestUndistributedAuthoritySignsLast(t *testing.T) {
	f := rotating(t) // and the targets never get the bundle
	old := f.State.Authorities[0].id()
	for range 200 {
		if f.State.issuer().id() != old {
			t.Fatal("the certificate is of an authority that no client trusts, though the old one is valid")
		}
		plan := Decide(f.Observed)
		if len(plan.Steps) == 0 {
			f.pass(min(plan.RequeueAfter, 10*day)) // something else may happen, too
			plan = Decide(f.Observed)
		}
		end, authority := f.State.Serving.Certificate.NotAfter, f.State.find(old).Certificate
		if f.Now.Add(f.Lifetimes.apart()).Before(authority.NotAfter) {
			if f.act(); f.State.Serving.Certificate.NotAfter.After(authority.NotAfter) {
				t.Fatal("a certificate outlives its authority")
			} else if len(plan.Steps) > 0 && !f.State.Serving.Certificate.NotAfter.After(end) {
				t.Fatalf("%v brings no longer life", plan.Steps)
			}
			continue
		}
		if f.act(); f.State.issuer() == nil || f.State.issuer().id() == old {
			t.Fatalf("all that was trusted has expired, and is served further: %v", plan.Steps)
		}
		return
	}
	t.Fatalf("two hundred steps have not reached the end of the authority, but %s", f.Now)
}

func TestLostCertificateDuringRotation(t *testing.T) {
	f := recordedRotation(t)
	f.State.Serving = nil
	want := []Step{IssueServing{f.State.Authorities[0].id(), "there is no serving certificate"}}
	if diff := cmp.Diff(want, Decide(f.Observed).Steps); diff != "" {
		t.Errorf("clients may not trust the new one yet: steps (-want +got):\n%s", diff)
	}
	f.pass(DefaultLifetimes.wait())
	want = []Step{IssueServing{f.State.Authorities[1].id(), "there is no serving certificate"}}
	if diff := cmp.Diff(want, Decide(f.Observed).Steps); diff != "" {
		t.Errorf("clients trust the new one by now: steps (-want +got):\n%s", diff)
	}
}

func TestPlansAndStatesShowNoKeys(t *testing.T) {
	f := settled(t)
	raw, err := f.State.Serving.Key.private.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	number := new(big.Int).SetBytes(raw)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		text := fmt.Sprintf(verb, f.State) + fmt.Sprintf(verb, *f.State.Serving) + fmt.Sprintf(verb, f.State.Authorities)
		if strings.Contains(text, number.String()) || strings.Contains(text, number.Text(16)) || !strings.Contains(text, "[key]") {
			t.Errorf("%s shows the key", verb)
		}
	}
	if encoded, err := json.Marshal(f.State.Serving.Key); err != nil || string(encoded) != `"[key]"` {
		t.Errorf("the key as JSON is %s (%v)", encoded, err)
	}
}
