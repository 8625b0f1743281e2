// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"slices"
	"strings"
	"testing"
	"time"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

// A template that uses all of the memory ends its process and the next one. Then the phase fails.
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
			if failed := phaseIn(status, bomb); failed.State != v1alpha1.StateFailed || !strings.Contains(status.Error.Message, "RenderLost: 2 processes of the controller") {
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
