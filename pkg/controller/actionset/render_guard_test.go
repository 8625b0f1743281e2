// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

// A template that uses all of the memory ends its process and the next ones. Then the phase fails.
func TestRenderLost(t *testing.T) {
	for name, bomb := range map[string]phaseKey{"in the first phase": {0, 0}, "in a later phase": {0, 1}, "in the deferPhase": {0, phase.Deferred}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": withDefer(actionOf("one", "two"), "KubeOps", "d")}))
			w.kills = func(a controller.Ask) bool {
				prepared, ok := a.(preparePhase)
				return ok && prepared.key == bomb
			}
			for _, key := range []phaseKey{{0, 0}, {0, 1}, {0, phase.Deferred}} {
				w.ending[key] = succeeded(key)
			}
			deaths := 0
			for range 20 {
				if w.atRest() {
					break
				}
				if w.sync() == errKilled {
					deaths++
					w.restart(0)
				}
				w.sees = len(w.history) - 1
				w.now = w.now.Add(time.Second)
			}
			status := w.set().Status
			if failed := phaseIn(status, bomb); failed.State != v1alpha1.StateFailed || !strings.Contains(status.Error.Message, "RenderLost: 3 processes of the controller") {
				t.Errorf("after %d processes: %s, %q", deaths, describeStatus(status), status.Error.Message)
			}
			if deaths != maxEnded+1 || !w.atRest() {
				t.Errorf("it took %d processes, and ends as %s", deaths, w.end())
			}
			if bomb.phase != phase.Deferred && status.Actions[0].DeferPhase.State != v1alpha1.StateComplete {
				t.Errorf("the deferPhase has not run: %s", w.end())
			}
			if faults := w.checkEnd(); len(faults) > 0 {
				t.Error(strings.Join(faults, "\n"))
			}
		})
	}
}

// isTry reports whether an ask polls a phase, or prepares it.
func isTry(polls bool, a controller.Ask, key phaseKey) bool {
	if polls {
		poll, ok := a.(pollPhase)
		return ok && poll.key == key
	}
	prepare, ok := a.(preparePhase)
	return ok && prepare.key == key
}

// Three processes are killed while they render, or observe a running phase. The next one does that in a sync that is alone, and the run succeeds.
func TestKilledWhileTrying(t *testing.T) {
	for name, killed := range map[string]struct {
		polls bool
		key   phaseKey
	}{
		"the first phase": {false, phaseKey{0, 0}}, "a later phase": {false, phaseKey{0, 1}}, "the deferPhase": {false, phaseKey{0, phase.Deferred}},
		"running": {true, phaseKey{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": withDefer(actionOf("one", "two"), "KubeOps", "d")}))
			deaths := 0
			w.kills = func(a controller.Ask) bool {
				if deaths == maxEnded || !isTry(killed.polls, a, killed.key) {
					return false
				}
				deaths++
				if w.alone > 0 {
					t.Errorf("process %d is killed when it is alone", deaths)
				}
				return true
			}
			w.settle()
			if status := w.set().Status; status.State != v1alpha1.StateComplete || deaths != maxEnded || w.alone == 0 {
				t.Errorf("after %d processes, and %d asks that were answered alone, it is %s: %s", deaths, w.alone, w.end(), status.Error.Message)
			}
			if faults := w.checkEnd(); len(faults) > 0 {
				t.Error(strings.Join(faults, "\n"))
			}
		})
	}
}

// One action ends each process. Only that action fails, although the others were recorded with it.
func TestSuspectsAreTriedApart(t *testing.T) {
	for n := range 6 {
		polls := n >= 3
		n %= 3
		bomb := phaseKey{n, 0}
		w := newWorld(t, newSet("a", "a", "a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": actionOf("one")}))
		deaths := 0
		w.kills = func(a controller.Ask) bool {
			tries := isTry(polls, a, bomb)
			if tries {
				deaths++
			}
			return tries
		}
		w.settle()
		status := w.set().Status
		for i := range status.Actions {
			want := v1alpha1.StateComplete
			if i == n {
				want = v1alpha1.StateFailed
			}
			if got := status.Actions[i].Phases[0].State; got != want {
				t.Errorf("action %d is %s, want %s; action %d has ended %d processes", i, got, want, n, deaths)
			}
		}
		if deaths != maxEnded+1 {
			t.Errorf("%d processes have ended, want %d", deaths, maxEnded+1)
		}
	}
}

// While no sync can be alone, suspected phases wait, and the run can be cancelled.
func TestSuspectWaits(t *testing.T) {
	for name, polls := range map[string]bool{"pending": false, "running": true} {
		w := newWorld(t, newSet("a", "a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": actionOf("one", "two")}))
		suspected := phaseKey{1, 0}
		deaths := 0
		w.kills = func(a controller.Ask) bool {
			tries := isTry(polls, a, suspected)
			if tries {
				deaths++
			}
			return tries
		}
		w.neverAlone = true
		w.settle()
		status := w.set().Status
		if deaths != maxEnded || hasFinished(status) {
			t.Errorf("%s: after %d processes it is %s", name, deaths, w.end())
		}
		if by := phaseIn(status, suspected).StartedBy; strings.Count(by, ",") > maxEnded-1 || strings.Contains(by, fmt.Sprint("process ", w.process)) {
			t.Errorf("%s: the phase is recorded as started by %s", name, by)
		}
		w.cancel()
		w.neverAlone = polls
		w.settle()
		if polls {
			w.neverAlone, w.kills = false, nil
			w.settle()
		}
		if !hasFinished(w.set().Status) {
			t.Errorf("%s: it is cancelled, and %s", name, w.end())
		}
	}
}

func TestClearRender(t *testing.T) {
	for rendered, want := range map[bool]string{true: "", false: "a,b"} {
		p := &v1alpha1.Phase{State: v1alpha1.StatePending, StartedBy: "a,me,b"}
		newPlanner(observed{executor: "me"}, nil, v1alpha1.ActionSetStatus{}).clearRender(p, rendered)
		if p.StartedBy != want {
			t.Errorf("rendered: %t: it is recorded as started by %q, want %q", rendered, p.StartedBy, want)
		}
	}
}

func TestSuspectAction(t *testing.T) {
	rendered := func(o *observed) { o.rendered = sets.New(phaseKey{0, 0}) }
	polled := func(o *observed) { o.continued = sets.New(phaseKey{1, 0}) }
	terminating := func(o *observed) { o.namespaceTerminating = true }
	const three = "process 1,process 2,me"
	cancelled := func(o *observed) { o.set.Spec.Cancel = true }
	for name, test := range map[string]struct {
		states    []string // of the phases of two actions
		startedBy []string
		change    func(*observed)
		want      string
	}{
		"none":                     {states: []string{"pending", "running"}, startedBy: []string{"", "process 1"}},
		"one process":              {states: []string{"pending", "running"}, startedBy: []string{"process 1", "process 1,process 2"}},
		"pending, two processes":   {states: []string{"pending", "pending"}, startedBy: []string{"", "process 1,process 2"}, want: "1"},
		"running, two processes":   {states: []string{"running", "running"}, startedBy: []string{"x", "x,process 1,process 2"}, want: "1"},
		"two, and this one":        {states: []string{"pending", "pending"}, startedBy: []string{three, three}, want: "0"},
		"three":                    {states: []string{"pending", "pending"}, startedBy: []string{"a,b,c", ""}},
		"rendered":                 {states: []string{"pending", "running"}, startedBy: []string{three, "x,a,b"}, change: rendered, want: "1"},
		"polled":                   {states: []string{"pending", "running"}, startedBy: []string{"", "x,a,b"}, change: polled},
		"could not be rendered":    {states: []string{"pending", "pending"}, startedBy: []string{"a,b", "a,b"}, change: prepareAgain(phaseKey{0, 0}, time.Second), want: "1"},
		"is rendered again":        {states: []string{"pending", "pending"}, startedBy: []string{"a,b", "a,b"}, change: prepareAgain(phaseKey{0, 0}, 0), want: "0"},
		"pending and cancelled":    {states: []string{"pending", "running"}, startedBy: []string{"a,b", "x"}, change: cancelled},
		"running and cancelled":    {states: []string{"pending", "running"}, startedBy: []string{"a,b", "x,a,b"}, change: cancelled, want: "1"},
		"in terminating namespace": {states: []string{"pending", "pending"}, startedBy: []string{"a,b", ""}, change: terminating},
	} {
		o := observe(newSet("a", "a"))
		action := snapshotAction{Blueprint: actionOf("one")}
		o.snapshot = &snapshot{Actions: []snapshotAction{action, action}}
		at := metav1.NewTime(noon)
		o.set.Status = &v1alpha1.ActionSetStatus{StartTime: &at, Actions: make([]v1alpha1.ActionStatus, 2)}
		for i := range 2 {
			o.set.Status.Actions[i].Phases = []v1alpha1.Phase{{Name: "one", State: v1alpha1.State(test.states[i]), StartedBy: test.startedBy[i]}}
		}
		if test.change != nil {
			test.change(&o)
		}
		got := ""
		if action := suspectAction(o); action != nil {
			got = fmt.Sprint(*action)
		}
		if got != test.want {
			t.Errorf("%s: got action %q, want %q", name, got, test.want)
		}
		for i, by := range test.startedBy {
			o.takenOver = true
			asked := slices.ContainsFunc(decide(o).Asks, func(a controller.Ask) bool { return a.(roundPart).about().action == i })
			if strings.Count(by, ",") > 0 && test.want == fmt.Sprint(i) && asked {
				t.Errorf("%s: action %d is tried, and the sync is not alone", name, i)
			}
		}
	}
}

func prepareAgain(key phaseKey, after time.Duration) func(*observed) {
	return func(o *observed) { o.prepareAgain = map[phaseKey]time.Time{key: o.now.Add(after)} }
}

// Processes are killed after they could not render, or could not do what is to be done with the result, because something cannot be read at the moment. They
// do not count, however many there are.
func TestKilledAfterPreparation(t *testing.T) {
	for name, notRendered := range map[string]bool{"rendered": false, "not rendered": true} {
		w := newWorld(t, newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": actionOf("one")}))
		outage := true
		w.notRendered = notRendered
		w.failing = func(a controller.Ask) bool {
			_, prepares := a.(preparePhase)
			return prepares && outage
		}
		for n := range 2 * maxEnded {
			before := w.writes
			const syncs = 5
			for range syncs {
				w.sees = len(w.history) - 1
				if err := w.sync(); err != nil {
					t.Fatal(err)
				}
				w.now = w.now.Add(time.Minute)
			}
			most := 2
			if notRendered {
				most *= syncs
			}
			if n > 0 && w.writes > before+most {
				t.Errorf("%s: process %d has written the status %d times, want %d at most", name, n, w.writes-before, most)
			}
			w.restart(0)
		}
		if by := phaseIn(w.set().Status, phaseKey{0, 0}).StartedBy; by != "" {
			t.Errorf("%s: the phase is recorded as started by %s", name, by)
		}
		outage = false
		w.settle()
		if status := w.set().Status; status.State != v1alpha1.StateComplete || w.alone > 0 {
			t.Errorf("%s: it is %s, with %d asks that were answered alone: %s", name, w.end(), w.alone, status.Error.Message)
		}
	}
}

// A template that ends its process is found, although each process could not read something before that.
func TestRenderLostAfterOutage(t *testing.T) {
	w := newWorld(t, newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": actionOf("one")}))
	tries, deaths := 0, 0
	w.notRendered = true
	w.failing = func(a controller.Ask) bool {
		_, prepares := a.(preparePhase)
		return prepares && tries%2 == 1
	}
	w.kills = func(a controller.Ask) bool {
		if _, prepares := a.(preparePhase); !prepares {
			return false
		}
		if tries++; tries%2 == 1 {
			return false
		}
		deaths++
		return true
	}
	w.settle()
	if status := w.set().Status; deaths != maxEnded+1 || !strings.Contains(status.Error.Message, "RenderLost") {
		t.Errorf("after %d processes it is %s: %s", deaths, w.end(), status.Error.Message)
	}
}

// An ordinary run is written as often as without the records of what is rendered: at its start, and at the end of each phase.
func TestRenderRecordOnTakeover(t *testing.T) {
	w := newWorld(t, newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": actionOf("one", "two", "three")}))
	for p := range 3 {
		w.ending[phaseKey{0, p}] = succeeded(phaseKey{0, p})
	}
	w.settle()
	phases := w.history[len(w.history)-1].Status.Actions[0].Phases
	if w.writes != 4 || slices.ContainsFunc(phases, func(p v1alpha1.Phase) bool { return strings.Contains(p.StartedBy, ",") }) {
		t.Errorf("%d status writes, %s", w.writes, w.end())
	}
}

// After a takeover something cannot be read for an hour, before or after rendering. That is tried again, and the status is not written in a loop.
func TestUnreadableAfterTakeover(t *testing.T) {
	inOneHour := int(time.Hour / prepareInterval)
	for name, test := range map[string]struct {
		unreadable, earlier string
		tries, writes       int
	}{
		"before rendering":                {"get configmaps", "", inOneHour, 3 * inOneHour},
		"before rendering, the last time": {"get configmaps", "a,b", inOneHour, 3 * inOneHour},
		// It is tried again as before a takeover, and the status is written when the message of what it waits for changes.
		"after rendering":                {"get deployments", "", 720, 70},
		"after rendering, the last time": {"get deployments", "a,b", 720, 70},
	} {
		unreadable := test.unreadable
		two := configMapPhase("two{{ .ConfigMaps.c.Name }}")
		if unreadable == "get deployments" {
			two = v1alpha1.BlueprintPhase{Func: "ScaleWorkload", Args: rawArgs(`{"namespace":"ns","kind":"deployment","name":"c","replicas":0}`)}
		}
		two.Name = "two"
		blueprint := newBlueprint(map[string]v1alpha1.BlueprintAction{"go": {Phases: []v1alpha1.BlueprintPhase{waitFor("flag"), two}}})
		inBubble(t, nil, blueprint, func(t *testing.T, a *apiServer) {
			configMaps := a.createConfigMap("flag", "false")
			a.createConfigMap("c", "")
			set := newSet("go")
			set.Spec.Actions[0].ConfigMaps = map[string]v1alpha1.ObjectReference{"c": {Name: "c"}}
			a.create(set)
			a.startProcess()
			a.stopProcess()
			a.edit(func(set *v1alpha1.ActionSet) { phaseIn(set.Status, phaseKey{0, 1}).StartedBy = test.earlier })
			tries := 0
			a.refuse = func(request string) error {
				if request == unreadable && a.object == "c" {
					tries++
					return outage(request)
				}
				return nil
			}
			configMaps.Update("ns", "flag", func(c *corev1.ConfigMap) { c.Data["ready"] = "true" })
			a.startProcess()
			a.waitHour()
			writes := 0
			for _, request := range a.takeRequests() {
				if request == "update actionsets/status" {
					writes++
				}
			}
			if tries < test.tries/2 || tries > test.tries+60 || writes > test.writes {
				t.Errorf("%s: %d tries and %d writes of the status in an hour, want about %d and at most %d", name, tries, writes, test.tries, test.writes)
			}
			a.answerAll()
			a.waitInOutage()
			if status := a.set().Status; !hasFinished(status) || strings.Contains(status.Error.Message, "RenderLost") {
				t.Errorf("%s: it is %s: %s", name, a.states(), status.Error.Message)
			}
		})
	}
}
