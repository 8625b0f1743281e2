// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import (
	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// decideRunning decides the next steps of a run.
func decideRunning(o observed) plan {
	if o.statusTooLarge != "" {
		return decideTooLarge(o)
	}
	t := newPlanner(o, o.snapshot, *o.set.Status.DeepCopy())
	if o.snapshot == nil {
		t.failSnapshotLost()
	} else {
		if t.status.Snapshot == nil {
			t.status.Snapshot = o.snapshotID // the release that started the run did not record it
		}
		t.recordCancel()
		for i := range t.status.Actions {
			t.advanceAction(i, false)
		}
	}
	return t.plan()
}

// decideUnread has a run wait for its snapshot, without which it is not known how its phases have ended. A cancelled run waits as long as its last phase and
// its deferPhase may take, counted from the first failure to read the snapshot if that was later.
func decideUnread(o observed) plan {
	if o.statusTooLarge != "" {
		return decideTooLarge(o)
	}
	t := newPlanner(o, nil, *o.set.Status.DeepCopy())
	t.recordCancel()
	for i := range t.status.Actions {
		if key, more := t.current(i); more {
			t.skipped = append(t.skipped, key)
		}
	}
	t.retry = true
	if since, unread := t.cancelledSince(), o.waiting[ofSnapshot.phaseKey]; !since.IsZero() {
		if unread.since.After(since) {
			since = unread.since
		}
		if limit := since.Add(stopLimit + deferLimit); o.now.Before(limit) {
			t.requeueAt(limit)
		} else {
			t.failRun("The run cannot continue: " + unread.Details)
		}
	}
	return t.plan()
}

// advanceAction advances an action as far as possible without waiting. An action without phases ends when it begins. advanceAction returns
// false if the end cannot be recorded yet.
func (t *planner) advanceAction(i int, begins bool) bool {
	before, events, cleaned := *t.status.Actions[i].DeepCopy(), len(t.events), len(t.cleanUps)
	moved := begins
	for {
		key, more := t.current(i)
		if !more {
			break
		}
		if !t.advancePhase(key) {
			return true // it runs, or waits
		}
		moved = true
	}
	if !moved || t.finishAction(i, begins) {
		return true
	}
	// The end is recorded together with the artifacts, not before: what has ended is found again.
	t.status.Actions[i], t.events, t.cleanUps = before, t.events[:events], t.cleanUps[:cleaned]
	return false
}

// current returns the phase that runs or comes next; more is false if there is none.
func (t *planner) current(i int) (key phaseKey, more bool) {
	action := &t.status.Actions[i]
	begun := false
	for p := range action.Phases {
		switch action.Phases[p].State {
		case v1alpha1.StateRunning:
			return phaseKey{i, p}, true
		case v1alpha1.StatePending:
			if !t.cancelled() {
				return phaseKey{i, p}, true
			}
		}
		begun = begun || action.Phases[p].State != v1alpha1.StatePending
		if action.Phases[p].State != v1alpha1.StateComplete {
			break
		}
	}
	switch action.DeferPhase.State {
	case v1alpha1.StateRunning:
		return phaseKey{i, phase.Deferred}, true
	case v1alpha1.StatePending:
		// If no phase has begun before the cancellation, a deferPhase has nothing to do.
		return phaseKey{i, phase.Deferred}, begun || !t.cancelled()
	default:
		return phaseKey{}, false
	}
}

// advancePhase begins or observes a phase. It returns whether the phase has ended.
func (t *planner) advancePhase(key phaseKey) (ended bool) {
	if phaseIn(&t.status, key).State == v1alpha1.StatePending {
		return t.beginPhase(key)
	}
	return t.observePhase(key)
}

// finishAction ends an action whose phases have all ended. It returns false if the end cannot be recorded yet.
func (t *planner) finishAction(i int, begins bool) bool {
	action, templates := &t.status.Actions[i], t.snapshot.Actions[i].Blueprint.OutputArtifacts
	if !hasSucceeded(action) || t.cancelled() || len(templates) == 0 {
		return true
	}
	rendered, known := t.o.artifacts[i]
	switch {
	case !known:
		return t.ask(renderArtifacts{i, t.snapshot, action.DeepCopy(), begins})
	case rendered.retry:
		t.retry = true
		return false
	case rendered.failure != "":
		t.setFailure(v1alpha1.ReasonArtifactsFailed, rendered.failure)
		t.events = append(t.events, failureEvents(&t.snapshot.Actions[i].Spec, "Failed to render output artifacts "+rendered.failure)...)
		return true
	}
	templatesOnly := action.Artifacts
	action.Artifacts = rendered.artifacts
	if message := t.sizeExceeded("the output artifacts of action "+action.Name+" have", sizeOf(rendered.artifacts)); message != "" {
		action.Artifacts = templatesOnly
		t.setFailure(v1alpha1.ReasonArtifactsFailed, "ArtifactsTooLarge: "+message)
		t.events = append(t.events, failureEvents(&t.snapshot.Actions[i].Spec, "Failed to render output artifacts ArtifactsTooLarge: "+message)...)
	}
	return true
}
