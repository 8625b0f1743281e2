// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package helloapp

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	v1 "millwright.dev/pkg/apis/apps/v1"
	"millwright.dev/pkg/controller"
)

// arena is where another client takes back each repair.
type arena struct {
	t        *testing.T
	w        *world
	takeBack func(*world)
	warnings int
}

// repairs counts those of so long, each of which is taken back as soon as all is well.
func (a *arena) repairs(howLong time.Duration) (waits []time.Duration) {
	a.t.Helper()
	for end := a.w.now.Add(howLong); a.w.now.Before(end); a.w.now = a.w.now.Add(20 * time.Millisecond) {
		a.takeBack(a.w)
		begin := a.w.now
		for !a.act() {
		}
		waits = append(waits, a.w.now.Sub(begin))
	}
	return waits
}

// act is one sync, or a wait where there is nothing to do. It returns whether something was applied.
func (a *arena) act() bool {
	a.t.Helper()
	o := a.w.look()
	o.appLive = true
	for _, s := range append(decide(o).Steps, nil) {
		switch s := s.(type) {
		case nil:
			wait := decide(o).RequeueAfter
			if wait == 0 {
				a.t.Fatal("it is not repaired, and not looked at again")
			}
			a.mirror()
			a.w.now = a.w.now.Add(wait)
		case applyDeployment:
			a.w.applyDeployment(s, &o)
			a.learn(&a.w.memory.deployment, s.repair)
			return true
		case applyService:
			a.w.service = serviceOf(o.app)
			a.learn(&a.w.memory.service, s.repair)
			return true
		default:
			a.t.Fatalf("it is to %s", s)
		}
	}
	return false
}

func (a *arena) learn(c *contest, repair bool) {
	var news bool
	if *c, news = c.of(a.w.app.Generation).applied(repair, a.w.now); news {
		a.warnings++
	}
	a.mirror()
}

// mirror writes the status, and returns what it says of Ready.
func (a *arena) mirror() string {
	p := mirror(a.w.look())
	for _, s := range p.Steps {
		if write, ok := s.(writeStatus); ok {
			a.w.app.Status = write.status
		}
	}
	return meta.FindStatusCondition(a.w.app.Status.Conditions, v1.ConditionReady).Reason
}

func newArena(t *testing.T, takeBack func(*world), options ...appOption) *arena {
	app := newApp(options...)
	w := &world{app: app, deployment: deploymentOf(app, rolledOut), now: noon, said: map[string]int{}}
	if app.Spec.Port != 0 {
		w.service = serviceOf(app)
	}
	w.memory.deployment.made, w.memory.service.made = true, true
	a := &arena{t: t, w: w, takeBack: takeBack}
	a.mirror()
	return a
}

func scaleAway(w *world)          { w.deployment.Spec.Replicas = ptr.To[int32](7) }
func deleteDeploymentOf(w *world) { w.deployment = nil }

func TestContestedDeploymentBacksOff(t *testing.T) {
	for name, test := range map[string]struct {
		takeBack func(*world)
		options  []appOption
		ready    string
	}{
		"the Deployment is edited":  {scaleAway, nil, v1.ReasonContested},
		"the Deployment is deleted": {deleteDeploymentOf, nil, v1.ReasonContested},
		"the Service is edited":     {func(w *world) { w.service.Spec.Ports[0].Port = 1 }, []appOption{withPort(80)}, v1.ReasonAvailable},
		"the Service is deleted":    {func(w *world) { w.service = nil }, []appOption{withPort(80)}, v1.ReasonAvailable},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArena(t, test.takeBack, test.options...)
			waits := a.repairs(time.Hour)
			if least, most := 55, controller.FreeRewrites+6+60; len(waits) < least || len(waits) > most {
				t.Errorf("%d repairs in an hour, want %d to %d", len(waits), least, most)
			}
			if slices.Max(waits[:controller.FreeRewrites]) > 0 || slices.Max(waits) > controller.MaxRewriteBackoff {
				t.Errorf("the repairs wait %s", waits)
			}
			if a.warnings != 1 {
				t.Errorf("%d warnings, want 1", a.warnings)
			}
			if got := a.mirror(); got != test.ready {
				t.Errorf("Ready is %s, want %s", got, test.ready)
			}
		})
	}
}

func TestAContestIsOver(t *testing.T) {
	t.Run("when the spec changes", func(t *testing.T) {
		a := newArena(t, scaleAway)
		a.repairs(time.Hour)
		scaleAway(a.w)
		edited(func(s *v1.HelloAppSpec) { s.Size = 5 })(a.w.app)
		if !a.act() {
			t.Error("the new spec waits")
		}
		if got := a.mirror(); got == v1.ReasonContested {
			t.Errorf("Ready is %s", got)
		}
	})
	t.Run("after some minutes of peace, without an event", func(t *testing.T) {
		a := newArena(t, scaleAway)
		a.repairs(time.Hour)
		rolledOut(a.w.deployment)
		for a.mirror() == v1.ReasonContested {
			after := mirror(a.w.look()).RequeueAfter
			if after == 0 {
				t.Fatal("it is not looked at again")
			}
			a.w.now = a.w.now.Add(after)
		}
		if got := a.mirror(); got != v1.ReasonAvailable {
			t.Errorf("Ready is %s", got)
		}
		scaleAway(a.w)
		if !a.act() {
			t.Error("the next repair waits")
		}
	})
}

func TestRareDriftIsRepairedImmediately(t *testing.T) {
	a := newArena(t, scaleAway)
	for range 100 {
		a.w.now = a.w.now.Add(time.Minute)
		scaleAway(a.w)
		if !a.act() {
			t.Fatal("it waits")
		}
	}
}
