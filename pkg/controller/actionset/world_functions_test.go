// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// intentOf a phase, as a process has observed it: the number of the object that is recorded, 0 if none is.
func intentOf(o *observed, key phaseKey) (made int) {
	intent, _ := objectOf(phaseIn(o.set.Status, key).Intent)
	number, _ := intent["made"].(int64)
	return int(number)
}

func (w *world) poll(key phaseKey, recorded int) phase.Observation {
	c := w.calls[key]
	switch {
	case recorded > 0 && (!c.present || c.made != recorded):
		return phase.Observation{State: phase.Failed, Message: "it has gone"}
	case c == nil || !c.present:
		return phase.Observation{State: phase.Idle}
	case c.gated && recorded == 0:
		return phase.Observation{State: phase.Ready, Intent: map[string]any{"made": c.made}}
	case c.gated:
		return phase.Observation{State: phase.Idle}
	}
	if ending, ok := w.ending[key]; ok && c.state == phase.Running {
		return ending
	}
	return phase.Observation{State: c.state}
}

// start implements the contract of a function: what was done is not done again.
func (w *world) start(key phaseKey, recorded int) phase.Observation {
	if w.set() == nil || w.set().Status == nil {
		w.fault("phase %s is started, and its intent is not recorded", key)
		return phase.Observation{}
	}
	if p := phaseIn(w.set().Status, key); p.State != v1alpha1.StateRunning || p.Intent == nil {
		w.fault("phase %s is started, but its state is %s with the intent %v", key, p.State, p.Intent)
	}
	w.effect(key, recorded)
	return w.poll(key, recorded)
}

// effect applies a start when its request arrives. An object is made first, and is released when it is recorded.
func (w *world) effect(key phaseKey, recorded int) {
	c := w.calls[key]
	if c == nil {
		c = &call{}
		w.calls[key] = c
	}
	switch leaves := w.traits(key).LeavesBehind; {
	case leaves && recorded == 0 && !c.present:
		c.made++
		c.present, c.gated, c.state = true, true, phase.Running
	case leaves && c.present && c.gated && c.made == recorded:
		c.gated = false
		c.begun++
	case !leaves && !c.present:
		c.begun++
		c.present, c.state = true, phase.Running
		if !w.traits(key).Resumable {
			c.process = w.process
		}
	}
	if c.begun > 1 {
		w.fault("phase %s is done %d times", key, c.begun)
	}
}

// check checks a change of the status: states only advance, in their order.
func (w *world) check(before, after *v1alpha1.ActionSetStatus) {
	if after == nil {
		return
	}
	rank := map[v1alpha1.State]int{v1alpha1.StatePending: 0, v1alpha1.StateRunning: 1, v1alpha1.StateFailed: 2, v1alpha1.StateComplete: 2}
	if before != nil && before.CompletionTime != nil && after.CompletionTime == nil {
		w.fault("the run has ended, and its status changes")
	}
	for i := range after.Actions {
		keys := []phaseKey{{i, phase.Deferred}}
		running, ended := 0, true
		for p := range after.Actions[i].Phases {
			keys = append(keys, phaseKey{i, p})
			state := after.Actions[i].Phases[p].State
			if !ended && state != v1alpha1.StatePending {
				w.fault("phase %d.%d is %s before its turn: %s", i, p, state, describeStatus(after))
			}
			ended = ended && state == v1alpha1.StateComplete
		}
		for _, key := range keys {
			is := phaseIn(after, key)
			if is.State == v1alpha1.StateRunning {
				running++
			}
			if before == nil || len(before.Actions) == 0 {
				continue
			}
			if was := phaseIn(before, key); rank[is.State] < rank[was.State] || rank[was.State] == 2 && was.State != is.State {
				w.fault("phase %s goes from %s to %s", key, was.State, is.State)
			}
		}
		if running > 1 {
			w.fault("action %d runs %d phases at a time: %s", i, running, describeStatus(after))
		}
	}
	if after.State == v1alpha1.StateComplete {
		for i := range after.Actions {
			if !hasSucceeded(&after.Actions[i]) {
				w.fault("complete, although: %s", describeStatus(after))
			}
		}
	}
}
