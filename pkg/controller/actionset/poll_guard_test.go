// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"strings"
	"testing"
	"time"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

// The poll of a running phase ends its process and the next ones. Then the phase fails, and the deferPhase runs.
func TestPollLost(t *testing.T) {
	for name, bomb := range map[string]phaseKey{"in the first phase": {0, 0}, "in the deferPhase": {0, phase.Deferred}} {
		for user, act := range map[string]func(*world){"": nil, "cancelled": (*world).cancel, "deleted": (*world).delete} {
			t.Run(name+" "+user, func(t *testing.T) {
				w := newWorld(t, newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": withDefer(actionOf("one"), "KubeOps", "d")}))
				for _, key := range []phaseKey{{0, 0}, {0, phase.Deferred}} {
					if key != bomb {
						w.ending[key] = succeeded(key)
					}
				}
				polls := 0
				w.kills = func(a controller.Ask) bool {
					polled, ok := a.(pollPhase)
					if !ok || polled.key != bomb {
						return false
					}
					polls++
					return true
				}
				for n := range 20 {
					if w.atRest() {
						break
					}
					if n == 2 && act != nil {
						act(w)
						w.sees = len(w.history) - 1
					}
					if w.sync() == errKilled {
						w.restart(0)
					}
					w.sees = len(w.history) - 1
					w.now = w.now.Add(time.Second)
				}
				if polls != maxEnded+1 || !w.atRest() {
					t.Errorf("%d processes have ended in a poll, want %d; the run is %s", polls, maxEnded+1, w.end())
				}
				if user == "deleted" {
					if w.set() != nil {
						t.Errorf("the ActionSet is not gone: %s", w.end())
					}
					return
				}
				status := w.set().Status
				if failed := phaseIn(status, bomb); failed.State != v1alpha1.StateFailed {
					t.Errorf("the phase is %s, want failed: %s", failed.State, w.end())
				}
				const want = "RenderLost: 3 processes of the controller have ended while they observed the phase"
				if user == "" && !strings.Contains(status.Error.Message, want) {
					t.Errorf("error: got %q, want %q in it", status.Error.Message, want)
				}
				if faults := w.checkEnd(); len(faults) > 0 {
					t.Error(strings.Join(faults, "\n"))
				}
			})
		}
	}
}

// Processes that end after they have observed a running phase do not count, however many there are. Each one writes the status twice.
func TestPollSurvived(t *testing.T) {
	w := newWorld(t, newSet("a"), newBlueprint(map[string]v1alpha1.BlueprintAction{"a": actionOf("one")}))
	running := phaseKey{0, 0}
	sync := func() {
		w.sees = len(w.history) - 1
		for range 3 {
			if err := w.sync(); err != nil {
				t.Fatal(err)
			}
			w.now = w.now.Add(time.Second)
		}
	}
	sync()
	for range 2 * maxEnded {
		w.restart(0)
		w.writes = 0
		sync()
		if w.writes != 2 {
			t.Errorf("%d status writes, want 2", w.writes)
		}
	}
	w.ending[running] = succeeded(running)
	w.settle()
	if status := w.set().Status; status.State != v1alpha1.StateComplete || phaseIn(status, running).StartedBy != "process 1" {
		t.Errorf("got %s, started by %s; want complete by process 1", w.end(), phaseIn(status, running).StartedBy)
	}
	if faults := w.checkEnd(); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
}
