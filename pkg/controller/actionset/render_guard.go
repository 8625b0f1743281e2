// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"slices"
	"strings"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// maxEnded is how many processes may end while they render the arguments of one phase, or while they observe it for the first time. After that the phase
// fails, because its templates, or what it reads, may have ended them. An ordinary end of a process cannot be distinguished from that.
const maxEnded = 2

// A process renders arguments after it has created the snapshot or started a phase, and before it starts the next phase. Both are recorded. A
// process that continues the run of another one first records that it is about to render: the field startedBy of a pending phase lists all
// processes that were about to render its arguments, separated by commas.

// mayRender reports whether the arguments of a phase may be rendered now. If not, it adds this process to the status, which has to be written first.
func (t *planner) mayRender(key phaseKey) bool {
	return !t.o.takenOver || t.recorded(key, renderedBy)
}

// recorded reports whether the status lists this process among the processes of a phase. If not, recorded adds it.
func (t *planner) recorded(key phaseKey, processes func(*v1alpha1.Phase) []string) bool {
	p := phaseIn(&t.status, key)
	if slices.Contains(processes(p), t.o.executor) {
		return true
	}
	p.StartedBy = strings.TrimPrefix(p.StartedBy+","+t.o.executor, ",")
	t.again = true
	return false
}

// ended returns how many processes have ended while they did what is recorded, if there are too many; 0 if this process may do it.
func (t *planner) ended(key phaseKey, processes func(*v1alpha1.Phase) []string) int {
	found := processes(phaseIn(&t.status, key))
	if len(found) < maxEnded || slices.Contains(found, t.o.executor) {
		return 0
	}
	return len(found)
}

// renderLost returns why the arguments of a phase are no longer rendered; "" if they are.
func (t *planner) renderLost(key phaseKey) string {
	processes := t.ended(key, renderedBy)
	if processes == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d processes of the controller have ended while they rendered the arguments of the phase: its templates may take more memory than there is",
		v1alpha1.ReasonRenderLost, processes)
}

// renderedBy returns the processes that were about to render the arguments of a pending phase.
func renderedBy(p *v1alpha1.Phase) []string {
	if p == nil || p.State != v1alpha1.StatePending || p.StartedBy == "" {
		return nil
	}
	return strings.Split(p.StartedBy, ",")
}

// executedBy reports whether a process has started any phase.
func executedBy(status *v1alpha1.ActionSetStatus, identity string) bool {
	for i := range status.Actions {
		action := &status.Actions[i]
		for _, p := range append(slices.Clone(action.Phases), action.DeferPhase) {
			if p.State != v1alpha1.StatePending && p.StartedBy == identity {
				return true
			}
		}
	}
	return false
}
