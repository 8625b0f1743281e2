// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

// Answer implements controller.Reconciler. An ask that cannot be answered at the moment is recorded in the answer, and the plan decides what
// follows.
func (s *syncer) Answer(ctx context.Context, a controller.Ask) error {
	part, ofRound := a.(roundPart)
	if ofRound && !s.share.mayAsk(part.about().kind) {
		s.o.outOfTime.Insert(part.about().kind)
		return nil
	}
	switch a := a.(type) {
	case lookUpSubjects:
		var err error
		if s.o.subjects, err = s.lookUpSubjects(ctx, a.room); err != nil {
			return err
		}
	case preparePhase:
		p := s.preparePhase(ctx, a)
		s.o.prepared[a.key] = p
		if p.rendered {
			s.o.rendered = s.memory.keepRendered(a.key)
		} else {
			s.o.prepareAgain = s.memory.prepareLater(a.key, time.Now().Add(prepareInterval))
		}
		s.memory.rememberWaiting(&s.o, a.key, p.waiting)
		s.share.answers += sizeOf(p.intent)
	case pollPhase:
		found := s.pollPhase(ctx, a)
		s.o.polled[a.key] = found
		s.o.continued = s.memory.keepContinued(a.key)
		s.memory.rememberWaiting(&s.o, a.key, found.Waiting)
		s.share.answers += sizeOf(found.Output)
	case renderArtifacts:
		r := s.renderArtifacts(ctx, a)
		s.o.artifacts[a.action] = r
		if a.begins {
			s.share.firstBytes += sizeOf(r.artifacts)
			controller.RestartSyncLimit(ctx) // there may be a thousand of them
		} else {
			s.share.answers += sizeOf(r.artifacts)
		}
	}
	if ofRound {
		s.share.finish(part.about())
		s.tried = s.o.alone != nil
	}
	return nil
}

// resultOf returns the result of a look-up, and remembers why it has to be retried.
func (s *syncer) resultOf(doing string, err error) lookupResult {
	if err == nil {
		return lookupResult{}
	}
	if message, ok := phase.FailureOf(phase.Definitive(err)); ok {
		return lookupResult{failure: message}
	}
	s.problem = errors.Join(s.problem, fmt.Errorf("%s: %w", doing, err))
	return lookupResult{retry: true, waiting: waitingForRetry(err)}
}

// waitingForRetry returns what a phase waits for if a request for it is retried because of an error.
func waitingForRetry(err error) phase.Waiting {
	var known *phase.WaitError
	if errors.As(err, &known) {
		return known.Waiting
	}
	return phase.Waiting{For: "a request to succeed", Details: err.Error()}
}

// preparePhase renders the arguments of a phase, and returns the intent of its function.
func (s *syncer) preparePhase(ctx context.Context, a preparePhase) (p preparation) {
	doing := "preparing phase " + a.key.String()
	f, err := s.readForPhase(ctx, a)
	if err == nil {
		p.initFailure, err = s.readOwnObjects(ctx, &f, a)
	}
	if p.lookupResult = s.resultOf(doing, err); err != nil || p.initFailure != "" {
		return p
	}
	args, err := s.args(ctx, a, f)
	if p.lookupResult = s.resultOf(doing, err); err != nil {
		return p
	}
	p.rendered = true
	called := a.snapshot.phaseOf(a.key)
	p.intent, err = s.functions.Get(called.Func).Validate(ctx, phase.Call{
		ID: s.id(a.key), Action: a.snapshot.Actions[a.key.action].call(), Args: args, StartTime: s.o.now,
	})
	if p.lookupResult = s.resultOf(doing, err); err == nil {
		s.share.answers += s.memory.keep(ctx, a.key, args)
	}
	return p
}

// pollPhase polls a running phase.
func (s *syncer) pollPhase(ctx context.Context, a pollPhase) phase.Observation {
	key, doing := a.key, "polling phase "+a.key.String()
	call, err := s.callToPoll(ctx, key)
	call.Cancelled = a.stopping
	var found phase.Observation
	if err == nil {
		found, err = s.functionOf(key).Poll(ctx, call)
	}
	if err == nil && isUnstarted(found) && !a.stopping {
		_, err = s.callWithArgs(ctx, key) // rendered before this process is recorded as the one that has survived
	}
	s.forgetArgs(key, found)
	switch result := s.resultOf(doing, err); {
	case result.failure != "":
		return phase.Observation{State: phase.Failed, Message: result.failure}
	case result.retry:
		return phase.Observation{Waiting: result.waiting}
	case isUnstarted(found):
		found.Waiting = s.memory.unstarted[key]
	}
	return found
}

// isUnstarted reports whether a call has to be started next.
func isUnstarted(found phase.Observation) bool {
	return found.State == phase.Idle || found.State == phase.Ready
}

// forgetArgs forgets the arguments of a phase that runs if its function does not observe them.
func (s *syncer) forgetArgs(key phaseKey, found phase.Observation) {
	if found.State == phase.Running && !s.o.snapshot.traits(key).ObservesArgs {
		delete(s.memory.args, key)
	}
}

// renderArtifacts renders the artifacts of an action that has succeeded.
func (s *syncer) renderArtifacts(ctx context.Context, a renderArtifacts) (r renderedArtifacts) {
	action := &a.snapshot.Actions[a.action]
	b := blueprint.NewBudget(ctx)
	f, err := s.readMentioned(ctx, b, action, a.status, func(m *blueprint.Mentions) error { return addOutputMentions(m, b, &action.Blueprint) })
	doing := fmt.Sprintf("rendering the artifacts of action %d", a.action)
	if r.lookupResult = s.resultOf(doing, err); err != nil {
		return r
	}
	if a.begins && (s.share.firstWork > maxFirstWork || s.share.firstBytes > maxAnswers) {
		r.failure = "the artifacts of all actions without phases take too many steps, or are too large: use several ActionSets"
		return r
	}
	b = blueprint.NewBudget(ctx)
	r.artifacts, err = inTurn(b, s.isSmall(f), func() (map[string]v1alpha1.Artifact, error) {
		return renderOutput(b, a.snapshot, a.action, a.status, f)
	})
	r.lookupResult = s.resultOf(doing, err)
	if a.begins {
		s.share.firstWork += b.Spent()
	}
	return r
}

// functionOf returns the function of a phase in the snapshot; nil if there is none.
func (s *syncer) functionOf(key phaseKey) phase.Function {
	if s.o.snapshot == nil {
		return s.functions.Forgotten()
	}
	if called := s.o.snapshot.phaseOf(key); called != nil {
		return s.functions.Get(called.Func)
	}
	return nil
}

func (s *syncer) id(key phaseKey) phase.ID {
	return phase.ID{Namespace: s.key.Namespace, Name: s.key.Name, UID: s.o.set.UID, Action: key.action, Phase: key.phase}
}

// callOf returns the call of a phase whose intent is recorded, without its arguments.
func (s *syncer) callOf(key phaseKey) (phase.Call, error) {
	call := phase.Call{ID: s.id(key)}
	if s.o.snapshot != nil && key.action < len(s.o.snapshot.Actions) {
		call.Action = s.o.snapshot.Actions[key.action].call()
	}
	of := phaseIn(s.o.set.Status, key)
	if of == nil {
		return call, nil
	}
	if of.StartTime != nil {
		call.StartTime = of.StartTime.Time
	}
	intent, err := objectOf(of.Intent)
	if err != nil {
		return call, fmt.Errorf("reading the intent of phase %s in the status of ActionSet %s: %w: %v", of.Name, s.key, phase.ErrUnreadableIntent, err)
	}
	call.Intent = intent
	return call, nil
}

// callToPoll returns the call of a running phase, with its arguments if its function observes them.
func (s *syncer) callToPoll(ctx context.Context, key phaseKey) (phase.Call, error) {
	if s.o.snapshot.traits(key).ObservesArgs {
		return s.callWithArgs(ctx, key)
	}
	return s.callOf(key)
}

// callWithArgs returns the call of a phase whose intent is recorded. Its arguments are rendered if this process has not done so before.
func (s *syncer) callWithArgs(ctx context.Context, key phaseKey) (phase.Call, error) {
	call, err := s.callOf(key)
	if err != nil {
		return call, err
	}
	if kept, known := s.memory.args[key]; known {
		call.Args = kept.args
		return call, nil
	}
	prepare := preparePhase{key: key, snapshot: s.o.snapshot, status: &s.o.set.Status.Actions[key.action]}
	f, err := s.readForPhase(ctx, prepare)
	if err != nil {
		return call, err
	}
	if call.Args, err = s.args(ctx, prepare, f); err != nil {
		return call, err
	}
	s.share.answers += s.memory.keep(ctx, key, call.Args)
	return call, nil
}

// call returns the data of the action for functions.
func (a *snapshotAction) call() phase.Action {
	override, _ := objectOf(a.Spec.PodOverride) // it was checked when the arguments were rendered
	return phase.Action{
		Namespace:   a.Subject.inNamespace(),
		Custom:      a.Subject.custom(),
		StatefulSet: a.Subject.StatefulSet, Deployment: a.Subject.Deployment,
		PodOverride: override, PodLabels: a.Spec.PodLabels, PodAnnotations: a.Spec.PodAnnotations,
	}
}

// isSmall reports whether what templates of a run get is so small that they need no turn before they turn out to be expensive.
func (s *syncer) isSmall(f inputs) bool {
	return !s.large && s.memory.snapshotBytes+f.size <= smallData
}

// inTurn renders templates when it is the turn of the budget: a small one does not wait for that. The error is a *phase.Failure if they cannot be rendered. If
// rendering was stopped, or had to wait too long, it is another error.
func inTurn[T any](b *blueprint.Budget, small bool, render func() (T, error)) (rendered T, _ error) {
	done, err := b.Turn(small)
	if err != nil {
		return rendered, err
	}
	defer done()
	rendered, err = render()
	if stopped := b.Stopped(); err != nil && stopped != nil {
		return rendered, stopped
	}
	if err != nil {
		return rendered, phase.Failf("%v", err)
	}
	return rendered, nil
}

// args renders the arguments of a phase that begins.
func (s *syncer) args(ctx context.Context, a preparePhase, f inputs) (map[string]any, error) {
	b := blueprint.NewBudget(ctx)
	return inTurn(b, s.isSmall(f), func() (map[string]any, error) { return renderArgs(b, a.snapshot, a.key, a.status, f) })
}
