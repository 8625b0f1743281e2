// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

// maxEnded is how many processes may end while they render the arguments of one phase, or while they observe it for the first time. After that the phase
// fails, because its templates, or what it reads, may have ended them. An ordinary end of a process, or one that another phase has caused, cannot be
// distinguished from that. So the last of these processes does it in a sync that is alone, and records it only then.
const maxEnded = 3

// prepareInterval is how long a process that could not render the arguments of a phase waits until it records again that it is about to: what is recorded is
// written before and after each try.
const prepareInterval = 10 * time.Second

// A process renders arguments after it has created the snapshot or started a phase, and before it starts the next phase. Both are recorded. A
// process that continues the run of another one first records that it is about to render: the field startedBy of a pending phase lists all
// processes that were about to render its arguments, separated by commas. A process that has rendered them clears it, and one that could not at the
// moment removes itself.

// mayRender reports whether the arguments of a phase may be rendered now. If not, it adds this process to the status, which has to be written first, unless the
// phase waits.
func (t *planner) mayRender(key phaseKey) bool {
	switch again := t.o.prepareAgain[key]; {
	case t.isAside(key):
		return false
	case t.o.rendered.Has(key), !t.o.takenOver && len(renderedBy(phaseIn(&t.status, key))) == 0:
		return true
	case again.After(t.o.now):
		t.requeueAt(again)
		return false
	}
	return t.mayTry(key) && t.recorded(key, renderedBy)
}

// clearRender removes from the status which processes were about to render, because this one has come back from a preparation.
func (t *planner) clearRender(p *v1alpha1.Phase, rendered bool) {
	p.StartedBy = strings.Join(slices.DeleteFunc(renderedBy(p), func(process string) bool { return rendered || process == t.o.executor }), ",")
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

// suspectAction returns an action whose next phase is tried for the last time; nil if there is none.
func suspectAction(o observed) *int {
	if o.snapshot == nil || !hasStarted(o.set.Status) || hasFinished(o.set.Status) || o.namespaceTerminating {
		return nil
	}
	t := newPlanner(o, o.snapshot, *o.set.Status.DeepCopy())
	t.recordCancel()
	for i := range t.status.Actions {
		if key, more := t.current(i); more && t.isLast(key) && !o.prepareAgain[key].After(o.now) {
			return &i
		}
	}
	return nil
}

// isLast reports whether this process is the last one that may end while it renders, or observes for the first time, and has not done it yet.
func (t *planner) isLast(key phaseKey) bool {
	p := phaseIn(&t.status, key)
	last := func(processes []string) bool {
		others := slices.DeleteFunc(processes, func(process string) bool { return process == t.o.executor })
		return len(others) == maxEnded-1
	}
	return last(renderedBy(p)) && !t.o.rendered.Has(key) || last(continuedBy(p)) && !t.o.continued.Has(key) && starter(p) != t.o.executor
}

// isAside reports whether a phase waits because one of another action is tried alone. Only that one is recorded then.
func (t *planner) isAside(key phaseKey) bool { return t.o.alone != nil && *t.o.alone != key.action }

// mayTry reports whether a phase may be tried: for the last time only in a sync that is alone.
func (t *planner) mayTry(key phaseKey) bool { return t.o.alone != nil || !t.isLast(key) }

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
