// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
)

// loseEventsAfter loses the events of a process after the n-th request.
func (a *apiServer) loseEventsAfter(n int) {
	done := 0
	a.refuse = func(string) error {
		if done++; done >= n {
			a.dead = true
		}
		return nil
	}
}

func (a *apiServer) postEvents() {
	a.answerAll()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dead = false
}

// A process is killed after a status write, and its events with it: the next one records the last event, and the one after that does not.
func TestLastEventSurvivesCrash(t *testing.T) {
	complete := "s: Normal Update Complete: Updated ActionSet 's' Status->complete"
	failing := threePhases()
	for p := range failing.Actions["go"].Phases {
		failing.Actions["go"].Phases[p] = phaseOf("KubeOps", "broken")
		failing.Actions["go"].Phases[p].Name += string(rune('0' + p))
	}
	missing := threePhases()
	missing.Actions = map[string]v1alpha1.BlueprintAction{}
	for name, test := range map[string]struct {
		blueprint *v1alpha1.Blueprint
		last      string // how the last event begins
	}{
		"complete": {threePhases(), complete},
		"failed":   {failing, "s: Warning ActionSetFailed Action: go: Failed to execute phase: "},
		"rejected": {missing, "s: Warning ActionSetFailed Action: go: Could not get initial action: "},
	} {
		for n := range strings.Count(allRequests, ",") + 2 {
			inBubble(t, newSet("go"), test.blueprint, func(t *testing.T, a *apiServer) {
				a.loseEventsAfter(n)
				a.startProcess()
				var events []string
				for range 3 {
					events = append(events, a.takeEvents()...)
					a.stopProcess()
					a.postEvents()
					a.startProcess()
				}
				a.waitHour()
				events = append(events, a.takeEvents()...)
				count := map[string]int{}
				for _, event := range events {
					count[event]++
				}
				found := 0
				for event, times := range count {
					if strings.HasPrefix(event, test.last) {
						if found++; times != 1 {
							t.Errorf("%s, silent from request %d: %d times %s", name, n, times, event)
						}
					}
				}
				if found != 1 {
					t.Errorf("%s, silent from request %d: %d of the last event among\n%s", name, n, found, strings.Join(events, "\n"))
				}
				if on := strings.Count(strings.Join(events, "\n"), "bp: Warning"); test.last != complete && on != 1 {
					t.Errorf("%s, silent from request %d: %d on the Blueprint among\n%s", name, n, on, strings.Join(events, "\n"))
				}
			})
		}
	}
}

func TestOldLastEventIsNotRepeated(t *testing.T) {
	inBubble(t, newSet("go"), threePhases(), func(t *testing.T, a *apiServer) {
		a.mu.Lock()
		a.dead = true
		a.mu.Unlock()
		a.startProcess()
		a.stopProcess()
		a.postEvents()
		time.Sleep(cleanUpPeriod + time.Second)
		a.startProcess()
		a.waitHour()
		a.wantEqual("events", withoutAdded(a.takeEvents()))
	})
}

func TestLastEventOfLostAndCancelled(t *testing.T) {
	set := storedSet(t, "running")
	lost := statusOf(decide(observe(set))).LastEvent
	if lost == nil || lost.Type != "Warning" || lost.Reason != "Error" || !strings.Contains(lost.Message, "was started by another controller") {
		t.Errorf("of what is lost: %+v", lost)
	}
	o := inRun(t, "KubeTask", statusWith("running", "pending", "pending"))
	o.set.Spec.Cancel = true
	if cancelled := statusOf(decide(withPolls(o))).LastEvent; cancelled == nil || cancelled.Reason != "Cancelled" {
		t.Errorf("of what is cancelled: %+v", cancelled)
	}
}

func withPolls(o observed) observed {
	for _, key := range runningPhases(o.set.Status) {
		o.polled[key] = succeeded(key)
	}
	return o
}

func TestBlueprintAddedEvent(t *testing.T) {
	inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
		a.startProcess()
		a.wantEqual("events of the first leader, before there is an ActionSet", a.takeEvents(), "bp: Normal Added: Added blueprint bp")
		later := threePhases()
		later.Name, later.UID = "later", "later"
		a.blueprints.Create(later)
		a.wantEqual("events", a.takeEvents(), "later: Normal Added: Added blueprint later")
		a.blueprints.Update("ns", "later", func(b *v1alpha1.Blueprint) { b.Labels = map[string]string{"a": "b"} })
		a.create(newSet())
		a.waitHour()
		a.wantEqual("events of a change", a.takeEvents(), "s: Normal Update Complete: Updated ActionSet 's' Status->complete")
		a.stopProcess()
		a.startProcess()
		if got := strings.Join(a.takeEvents(), "\n"); strings.Count(got, "Added blueprint bp") != 1 || strings.Count(got, "Added blueprint later") != 1 {
			t.Errorf("events of the second leader:\n%s", got)
		}
	})
}

func TestStandbyPostsNoEvent(t *testing.T) {
	inBubble(t, nil, threePhases(), func(t *testing.T, a *apiServer) {
		a.startStandby()
		time.Sleep(time.Minute)
		synctest.Wait()
		a.wantEqual("events", a.takeEvents())
	})
}

// An ActionSet and its Blueprint may have the same name, and events in one namespace may not.
func TestEventNamesAreUnique(t *testing.T) {
	s := &syncer{memory: &memory{}}
	names := map[string]bool{}
	for range 3 {
		events := failureEvents(&v1alpha1.ActionSpec{Name: "a", Blueprint: "s"}, "no")
		steps := append([]controller.Step{writeStatus{v1alpha1.ActionSetStatus{LastEvent: lastEvent(events)}}}, eventSteps(events)...)
		s.nameEvents(steps)
		last := steps[0].(writeStatus).status.LastEvent
		o := observe(newSet("a"))
		o.set.Status = &v1alpha1.ActionSetStatus{LastEvent: last}
		if again := repeatedEvents(o); len(again) != 2 || again[0].(recordEvent) != steps[1].(recordEvent) || again[1].(recordEvent) != steps[2].(recordEvent) {
			t.Errorf("recorded again they are %v, and were %v", again, steps[1:])
		}
		for _, s := range steps[1:] {
			names[s.(recordEvent).name] = true
		}
	}
	if len(names) != 6 {
		t.Errorf("six events have the names %v", names)
	}
}
