// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// scenarios have a Blueprint, and what happens to the run after a number of syncs.
var scenarios = map[string]struct {
	actions map[string]v1alpha1.BlueprintAction
	fails   []phaseKey
	after   map[int]func(w *world)
	// exec: a crash may lose a phase.
	exec bool
}{
	"three phases":                {actions: map[string]v1alpha1.BlueprintAction{"a": actionOf("one", "two", "three")}},
	"two actions with deferPhase": {actions: map[string]v1alpha1.BlueprintAction{"a": withDefer(actionOf("one", "two"), "KubeOps", "d"), "b": withDefer(tasks("x", "y"), "KubeTask", "e")}},
	"artifacts":                   {actions: map[string]v1alpha1.BlueprintAction{"a": withArtifacts(withDefer(tasks("one", "two"), "KubeTask", "d"))}},
	"a failing phase":             {actions: map[string]v1alpha1.BlueprintAction{"a": withDefer(tasks("one", "two"), "KubeTask", "d")}, fails: []phaseKey{{0, 0}}},
	"a failing deferPhase":        {actions: map[string]v1alpha1.BlueprintAction{"a": withDefer(tasks("one"), "KubeTask", "d")}, fails: []phaseKey{{0, phase.Deferred}}},
	"an exec":                     {actions: map[string]v1alpha1.BlueprintAction{"a": withDefer(execs("one", "two"), "KubeTask", "d")}, exec: true},
	"nothing to do":               {actions: map[string]v1alpha1.BlueprintAction{"a": {}}},
	"cancelled": {
		actions: map[string]v1alpha1.BlueprintAction{"a": withDefer(tasks("one", "two"), "KubeTask", "d"), "b": tasks("x")},
		after:   map[int]func(*world){1: (*world).cancel},
	},
	"deleted": {
		actions: map[string]v1alpha1.BlueprintAction{"a": withDefer(tasks("one", "two"), "KubeTask", "d"), "b": tasks("x")},
		after:   map[int]func(*world){1: (*world).delete},
	},
	"deleted with its namespace": {
		actions: map[string]v1alpha1.BlueprintAction{"a": withDefer(actionOf("one", "two"), "KubeOps", "d")},
		after:   map[int]func(*world){1: func(w *world) { w.terminating = true; w.delete() }},
	},
}

func tasks(names ...string) v1alpha1.BlueprintAction { return of("KubeTask", names) }

func execs(names ...string) v1alpha1.BlueprintAction { return of("KubeExec", names) }

func of(function string, names []string) v1alpha1.BlueprintAction {
	action := actionOf(names...)
	for i := range action.Phases {
		action.Phases[i] = phaseOf(function, names[i])
	}
	return action
}

func withArtifacts(action v1alpha1.BlueprintAction) v1alpha1.BlueprintAction {
	action.OutputArtifacts = map[string]v1alpha1.Artifact{"art": {KopiaSnapshot: "{{ template }}"}}
	return action
}

// play runs a scenario to its end. The process is killed at the step dies of the sync inSync, and the next process begins with a stale cache,
// lag versions behind.
func play(t *testing.T, name string, inSync, dies int, late crashEffect, lag int) (w *world, died bool) {
	s := scenarios[name]
	var names []string
	for _, action := range []string{"a", "b"} {
		if _, ok := s.actions[action]; ok {
			names = append(names, action)
		}
	}
	w = newWorld(t, newSet(names...), newBlueprint(s.actions))
	for _, key := range s.fails {
		w.ending[key] = phase.Observation{State: phase.Failed, Message: "it failed"}
	}
	for n := range 40 {
		if w.atRest() {
			break
		}
		if n == inSync {
			w.dies, w.late, w.hold = dies, late == takesEffect, late == arrivesLate
		}
		if err := w.sync(); err == errKilled {
			died = true
			w.restart(lag)
			_ = w.sync() // from what the cache has by then
		}
		if user := s.after[n]; user != nil && w.set() != nil {
			user(w)
		}
		w.sees = len(w.history) - 1
		w.now = w.now.Add(10 * time.Second)
		for key := range w.calls {
			if _, ok := w.ending[key]; !ok && n%2 == 1 {
				w.ending[key] = succeeded(key)
			}
		}
	}
	w.settle()
	for _, arrive := range w.held {
		arrive()
	}
	w.settle()
	return w, died
}

// crashEffect is what happens to the request during which a process is killed.
type crashEffect string

const (
	isLost      crashEffect = "is lost"
	takesEffect crashEffect = "takes effect"
	arrivesLate crashEffect = "arrives when all is over"
)

// ending is what a run has led to, whenever.
func (w *world) end() string {
	if w.set() == nil {
		return "gone"
	}
	status := w.set().Status
	var artifacts []string
	for i := range status.Actions {
		artifacts = append(artifacts, fmt.Sprint(status.Actions[i].Artifacts))
	}
	return fmt.Sprintf("%s %q %s %v", describeStatus(status), status.Error.Message, status.Progress.PercentCompleted, artifacts)
}

// The process is killed just before and just after every step of every scenario, and the next process has a fresh or a stale cache.
// The run ends as without a crash, and nothing is done twice. A command that ended with its process is reported as lost.
func TestCrashAtEveryStep(t *testing.T) {
	points := 0
	for name, s := range scenarios {
		undisturbed, _ := play(t, name, -1, 0, isLost, 0)
		if faults := undisturbed.checkEnd(); len(faults) > 0 {
			t.Fatalf("%s: %s", name, strings.Join(faults, "\n"))
		}
		for inSync := range 12 {
			for dies := 1; ; dies++ {
				died := false
				for _, late := range []crashEffect{isLost, takesEffect, arrivesLate} {
					lags := []int{0, 2}
					if late == arrivesLate {
						lags = lags[:1]
					}
					for _, lag := range lags {
						w, killed := play(t, name, inSync, dies, late, lag)
						if !killed {
							continue
						}
						died = true
						points++
						where := fmt.Sprintf("%s, killed at step %d of sync %d, which %s, cache %d behind", name, dies, inSync, late, lag)
						if faults := w.checkEnd(); len(faults) > 0 {
							t.Fatalf("%s: %s", where, strings.Join(faults, "\n"))
						}
						lost := s.exec && strings.Contains(w.end(), v1alpha1.ReasonControllerRestarted)
						if w.end() != undisturbed.end() && !lost {
							t.Fatalf("%s:\nends as %s\nwant    %s", where, w.end(), undisturbed.end())
						}
					}
				}
				if !died {
					break
				}
			}
		}
	}
	t.Logf("%d points", points)
	if points < 500 {
		t.Errorf("only %d points were tried", points)
	}
}

// Whatever happens in whatever order: it ends, nothing is done twice, nothing is left.
func TestRandomCrashes(t *testing.T) {
	for seed := range uint64(300) {
		if faults := randomRun(t, seed); len(faults) > 0 {
			t.Fatalf("seed %d: %s", seed, strings.Join(faults, "\n"))
		}
	}
}

func FuzzRandomCrashes(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		if faults := randomRun(t, seed); len(faults) > 0 {
			t.Fatal(strings.Join(faults, "\n"))
		}
	})
}

func randomRun(t testing.TB, seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 0))
	functions := []string{"KubeOps", "KubeTask", "KubeExec"}
	actions := map[string]v1alpha1.BlueprintAction{}
	for _, name := range []string{"a", "b"} {
		var action v1alpha1.BlueprintAction
		for p := range random.IntN(4) {
			action.Phases = append(action.Phases, phaseOf(functions[random.IntN(3)], fmt.Sprint("p", p)))
		}
		if random.IntN(2) == 0 {
			action = withDefer(action, functions[random.IntN(3)], "d")
		}
		if random.IntN(2) == 0 {
			action = withArtifacts(action)
		}
		actions[name] = action
	}
	w := newWorld(t, newSet("a", "b"), newBlueprint(actions))
	w.most = random.IntN(3)
	for range 60 {
		if w.set() == nil {
			break
		}
		w.happen(random)
	}
	w.settle()
	for _, arrive := range w.held {
		arrive()
	}
	w.settle()
	return w.checkEnd()
}

// happen is one thing that can happen.
func (w *world) happen(random *rand.Rand) {
	key := phaseKey{random.IntN(2), random.IntN(4) - 1}
	switch draw := random.IntN(100); {
	case draw < 50:
		w.sees = min(w.sees+random.IntN(4), len(w.history)-1)
		_ = w.sync()
	case draw < 65:
		w.dies, w.late, w.hold = 1+random.IntN(6), random.IntN(2) == 0, random.IntN(2) == 0
		if w.sync() == errKilled {
			w.restart(random.IntN(6))
		}
		w.dies = 0
	case draw < 68:
		w.restart(random.IntN(6))
	case draw < 70:
		if len(w.held) > 0 {
			w.held[0]()
			w.held = w.held[1:]
		}
	case draw < 80:
		if _, decided := w.ending[key]; !decided && w.calls[key] != nil {
			w.ending[key] = []phase.Observation{succeeded(key), {State: phase.Failed, Message: "no"}}[random.IntN(2)]
		}
	case draw < 83:
		w.stubborn[key] = true
	case draw < 86:
		w.unknown = random.IntN(3)
	case draw < 88:
		w.unread = random.IntN(6)
	case draw < 97:
		w.now = w.now.Add(time.Duration(random.IntN(100)) * time.Second)
	case draw < 98:
		w.cancel()
	case draw < 99:
		w.delete()
	default:
		if random.IntN(4) == 0 {
			w.terminating = true
			w.delete()
		}
	}
}
