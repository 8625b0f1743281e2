// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import "testing"

// A simulation is worth what it finds.
func TestSimulationFindsWrongOrder(t *testing.T) {
	for name, broken := range map[string]func(*world){
		"the new authority signs as soon as it is made": func(w *world) {
			w.decide = func(o Observed) Plan {
				plan := Decide(o)
				if len(plan.Steps) > 0 && len(kinds(plan)) == 1 && kinds(plan)[0] == "CreateAuthority" {
					plan.Steps = append(plan.Steps, IssueServing{})
				}
				return plan
			}
		},
		"clients get no time to learn": func(w *world) {
			w.decide = func(o Observed) Plan {
				o.Lifetimes.Distribution, o.Lifetimes.Skew = -DefaultLifetimes.Skew, 0
				return Decide(o)
			}
		},
		"it is not checked whether the targets carry it": func(w *world) {
			w.decide = func(o Observed) Plan {
				plan := Decide(o)
				inject := plan.Inject
				o.Targets = nil
				plan = Decide(o)
				plan.Inject = inject
				return plan
			}
		},
		"the old authority goes when the new one signs": func(w *world) {
			w.decide = func(o Observed) Plan {
				plan := Decide(o)
				for _, step := range plan.Steps {
					if forget, is := step.(ForgetKey); is {
						plan.Steps = append(plan.Steps, DropAuthority(forget))
					}
				}
				return plan
			}
		},
		"certificates begin when they are made": func(w *world) { w.lifetimes.Skew = 0 },
		"certificates are renewed on their last day": func(w *world) {
			w.decide = func(o Observed) Plan {
				if plan := Decide(o); len(plan.Steps) == 0 || o.State.Serving == nil || o.Now.After(o.State.Serving.Certificate.NotAfter.Add(-day)) {
					return plan
				}
				return Plan{RequeueAfter: day}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				if err := newWorld(seed, broken).run(10); err != nil {
					t.Log(err)
					return
				}
			}
			t.Error("thirty years of this, and the simulation has seen nothing")
		})
	}
}
