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

// maxRenderings is how many processes may end while they render the arguments of one phase. After that the phase fails: the template may
// have been what has ended them. An ordinary end of a process looks the same.
const maxRenderings = 2

// Rendering happens between two records: what a process does from the snapshot of a run, or from the start of a phase, to the start of the
// next phase. A process that goes on with a run of which another one has made these records records first that it is about to render: a
// phase that is pending is startedBy all processes that were about to render its arguments, with commas between.

// mayRender reports whether the arguments of a phase may be rendered now. If not, that is recorded in the status, which is to be written first.
func (t *planner) mayRender(key phaseKey) bool {
	if !t.o.takenOver {
		return true
	}
	p := phaseIn(&t.status, key)
	processes := renderedBy(p)
	if slices.Contains(processes, t.o.executor) {
		return slices.Contains(renderedBy(phaseIn(t.o.set.Status, key)), t.o.executor)
	}
	p.StartedBy = strings.Join(append(processes, t.o.executor), ",")
	t.again = true
	return false
}

// renderLost returns why the arguments of a phase are not rendered any more; "" if they are.
func (t *planner) renderLost(key phaseKey) string {
	processes := renderedBy(phaseIn(&t.status, key))
	if len(processes) < maxRenderings || slices.Contains(processes, t.o.executor) {
		return ""
	}
	return fmt.Sprintf("%s: %d processes of the controller have ended while they rendered the arguments of the phase: its templates may take more memory than there is",
		v1alpha1.ReasonRenderLost, len(processes))
}

// renderedBy are the processes that were about to render the arguments of a phase that is pending.
func renderedBy(p *v1alpha1.Phase) []string {
	if p == nil || p.State != v1alpha1.StatePending || p.StartedBy == "" {
		return nil
	}
	return strings.Split(p.StartedBy, ",")
}

// startedBy reports whether a process has started any phase.
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
