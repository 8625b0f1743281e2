// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// beginPhase records the intent of a phase and then starts it.
func (t *planner) beginPhase(key phaseKey) (ended bool) {
	prepared, known := t.o.prepared[key]
	if lost := t.renderLost(key); lost != "" {
		phaseIn(&t.status, key).StartTime = t.seconds()
		t.failPhase(key, v1alpha1.ReasonRenderLost, executionPrefix(key), lost)
		return true
	}
	if !known && !t.mayRender(key) {
		t.skipped = append(t.skipped, key)
		return false
	}
	if !known {
		t.ask(preparePhase{key, t.snapshot, t.status.Actions[key.action].DeepCopy()})
		return false
	}
	p := phaseIn(&t.status, key)
	t.clearRender(p, prepared.rendered || !prepared.retry)
	if prepared.retry {
		t.retry = true
		if limit := t.deadline(key); limit.IsZero() || t.o.now.Before(limit) {
			return false
		}
		prepared.failure = fmt.Sprintf("it could not be started within %s", stopLimit+deferLimit)
	}
	p.StartTime, p.StartedBy = t.seconds(), ""
	intent, err := rawOf(prepared.intent)
	if key.phase == phase.Deferred {
		t.recordNormal("Started deferPhase", "Executing deferPhase "+p.Name)
	} else {
		t.recordNormal("Started Phase", "Executing phase "+p.Name)
	}
	switch {
	case prepared.initFailure != "" && key.phase != phase.Deferred:
		t.failPhase(key, v1alpha1.ReasonPhaseFailed, "Failed to init phase params: ", prepared.initFailure)
	case prepared.initFailure != "":
		t.failExecution(key, prepared.initFailure)
	case prepared.failure != "":
		t.failExecution(key, prepared.failure)
	case err != nil:
		t.failExecution(key, fmt.Sprintf("encoding the intent: %v", err))
	default:
		p.Intent = intent
		if message := t.sizeExceeded("the intent of the phase has", len(rawBytes(intent))); message != "" {
			p.Intent = nil
			t.failExecution(key, message)
			return true
		}
		p.State, p.StartedBy = v1alpha1.StateRunning, t.o.executor
		t.starts = append(t.starts, key)
		return false
	}
	return true
}

// observePhase decides on a phase whose intent is recorded.
func (t *planner) observePhase(key phaseKey) (ended bool) {
	p := phaseIn(&t.status, key)
	if lost := t.pollLost(key); lost != "" {
		t.failPhase(key, v1alpha1.ReasonRenderLost, executionPrefix(key), lost)
		return true
	}
	limit := t.deadline(key)
	stopping := !limit.IsZero() && (key.phase != phase.Deferred || !t.o.now.Before(limit.Add(-stopLimit)))
	found, known := t.o.polled[key]
	switch {
	case !t.snapshot.traits(key).Resumable && p.StartedBy != t.o.executor:
		found = phase.Observation{State: phase.Lost}
	case !known && !t.mayPoll(key):
		t.skipped = append(t.skipped, key)
		return false
	case !known:
		t.ask(pollPhase{key, stopping})
		return false
	}
	p.StartedBy = starter(p) // this process has survived the poll
	switch found.State {
	case phase.Succeeded:
		return t.completePhase(key, found.Output)
	case phase.Failed:
		t.failExecution(key, found.Message)
		return true
	case phase.Stopped:
		t.failExecution(key, "it was cancelled")
		return true
	case phase.Lost:
		const reason = v1alpha1.ReasonControllerRestarted
		t.failPhase(key, reason, executionPrefix(key), reason+": the controller was restarted while the phase ran, and how the phase ended is not known")
		return true
	}
	switch {
	case stopping && (found.State == phase.Idle || found.State == phase.Ready):
		t.failExecution(key, "it was cancelled")
		return true
	case stopping && !t.o.now.Before(limit) && t.o.stopTried.Has(key): // before it was tried, the phase is not given up
		t.failExecution(key, fmt.Sprintf("it was cancelled, and could not be stopped within %s", stopLimit))
		return true
	}
	intent, err := rawOf(found.Intent)
	if err != nil {
		t.failExecution(key, fmt.Sprintf("encoding the intent: %v", err))
		return true
	}
	t.waitForPhase(key, found, intent, limit, stopping)
	return false
}

// waitForPhase waits for a phase that has not ended.
func (t *planner) waitForPhase(key phaseKey, found phase.Observation, intent *runtime.RawExtension, limit time.Time, stopping bool) {
	p := phaseIn(&t.status, key)
	switch {
	case found.State == phase.Unknown:
		t.retry = true
	case stopping:
	case found.State == phase.Idle, found.State == phase.Ready:
		// The phase is taken over by a write: from a stale status the write is a conflict, and nothing is done twice.
		p.StartedBy = t.o.executor
		if found.State == phase.Ready {
			p.Intent = intent
		}
		t.starts = append(t.starts, key)
	default:
		t.recordProgress(p, found.Progress)
		if found.PollAfter > 0 {
			t.requeue(found.PollAfter)
		}
	}
	switch {
	case stopping:
		t.cancels = append(t.cancels, key)
		t.requeueAt(limit)
	case !limit.IsZero():
		t.requeueAt(limit.Add(-stopLimit))
	}
}

// deadline returns when a phase must have ended, including the time that it has to stop. It is zero for a run that is not cancelled, which
// has no limit.
func (t *planner) deadline(key phaseKey) time.Time {
	since := t.cancelledSince()
	if since.IsZero() || key.phase != phase.Deferred {
		if !since.IsZero() {
			since = since.Add(stopLimit)
		}
		return since
	}
	p := phaseIn(&t.status, key)
	if p.State == v1alpha1.StatePending {
		return since.Add(stopLimit + deferLimit)
	}
	if p.StartTime != nil && p.StartTime.After(since) {
		since = p.StartTime.Time
	}
	return since.Add(deferLimit + stopLimit)
}

func (t *planner) completePhase(key phaseKey, output map[string]any) (ended bool) {
	p := phaseIn(&t.status, key)
	raw, err := rawOf(output)
	if err != nil {
		t.failExecution(key, fmt.Sprintf("reading the output: %v", err))
		return true
	}
	if !isReduced(&t.status) {
		p.Output = raw
	}
	if message := t.sizeExceeded("the output of the phase has", len(rawBytes(raw))); message != "" {
		p.Output = nil
		t.failExecution(key, "OutputTooLarge: "+message)
		return true
	}
	t.endPhase(key, v1alpha1.StateComplete)
	if key.phase == phase.Deferred {
		t.recordNormal("Ended deferPhase", "Completed deferPhase "+p.Name)
		return true
	}
	p.Progress.ProgressPercent, p.Progress.LastTransitionTime = "100", t.seconds()
	t.recordNormal("Ended Phase", "Completed phase "+p.Name)
	return true
}

// endPhase records that a phase has ended. What it leaves is removed after the status is written: otherwise the next process could not find
// how it has ended.
func (t *planner) endPhase(key phaseKey, state v1alpha1.State) {
	p := phaseIn(&t.status, key)
	if traits := t.snapshot.traits(key); p.State == v1alpha1.StateRunning && (traits.LeavesBehind || traits.Remembered) {
		t.cleanUps = append(t.cleanUps, key)
	}
	p.State, p.CompletionTime = state, t.seconds()
}

func executionPrefix(key phaseKey) string {
	if key.phase == phase.Deferred {
		return "Failed to execute defer phase: "
	}
	return "Failed to execute phase: "
}

func (t *planner) failExecution(key phaseKey, message string) {
	reason := v1alpha1.ReasonPhaseFailed
	if key.phase == phase.Deferred {
		reason = v1alpha1.ReasonDeferPhaseFailed
	}
	t.failPhase(key, reason, executionPrefix(key), message)
}

// failPhase records that a phase has failed. In a cancelled run the status keeps showing why the run was cancelled.
func (t *planner) failPhase(key phaseKey, reason, prefix, message string) {
	t.endPhase(key, v1alpha1.StateFailed)
	if key.phase == phase.Deferred || !t.cancelled() {
		t.setFailure(reason, message)
	}
	t.events = append(t.events, failureEvents(&t.snapshot.Actions[key.action].Spec, prefix+message)...)
}
