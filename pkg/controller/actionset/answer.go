// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// answer one of the questions of a decision.
func (s *syncing) answer(ctx context.Context, a ask) {
	switch a := a.(type) {
	case findSubjects:
		s.o.subjects = s.findSubjects(ctx)
	case prepare:
		s.o.prepared[a.key] = s.prepare(ctx, a)
		s.memory.noteWaiting(&s.o, a.key, unanswered(s.o.prepared[a.key].why))
	case poll:
		s.o.polled[a.key] = s.poll(ctx, a.key)
		s.memory.noteWaiting(&s.o, a.key, s.o.polled[a.key].Waiting)
	case renderArtifacts:
		s.o.artifacts[a.action] = s.renderArtifacts(ctx, a)
	}
}

// outcomeOf what was done. It is remembered why something could not be told.
func (s *syncing) outcomeOf(doing string, err error) outcome {
	if err == nil {
		return outcome{}
	}
	if message, ok := phase.FailureOf(phase.Definitive(err)); ok {
		return outcome{failure: message}
	}
	s.problem = errors.Join(s.problem, fmt.Errorf("%s: %w", doing, err))
	return outcome{unknown: true, why: err.Error()}
}

// unanswered is that something cannot be told, if it says why.
func unanswered(why string) (w phase.Waiting) {
	if why != "" {
		w = phase.Waiting{For: "an answer that it can go on with", Details: why}
	}
	return w
}

// prepare a phase that is to begin.
func (s *syncing) prepare(ctx context.Context, a prepare) (p preparation) {
	doing := "preparing phase " + a.key.String()
	action, index := &a.run.Actions[a.key.action], a.key.phase
	f, err := s.fetch(ctx, action)
	if err == nil {
		var missing error
		missing, err = s.fetchObjects(ctx, &f, action, &a.status.Actions[a.key.action], &index)
		if missing != nil {
			p.initFailure = missing.Error()
			return p
		}
	}
	if p.outcome = s.outcomeOf(doing, err); err != nil {
		return p
	}
	args, err := s.args(ctx, a, f)
	if p.outcome = s.outcomeOf(doing, err); err != nil {
		return p
	}
	called := a.run.phaseOf(a.key)
	p.intent, err = s.functions.Get(called.Func).Validate(ctx, phase.Call{ID: s.id(a.key), Action: action.call(), Args: args, StartTime: s.o.now})
	if p.outcome = s.outcomeOf(doing, err); err == nil {
		s.memory.keep(a.key, args)
	}
	return p
}

// poll a phase that runs.
func (s *syncing) poll(ctx context.Context, key phaseKey) phase.Observation {
	doing := "polling phase " + key.String()
	call, err := s.callWithArgs(ctx, key)
	var found phase.Observation
	if err == nil {
		found, err = s.functionOf(key).Poll(ctx, call)
	}
	switch told := s.outcomeOf(doing, err); {
	case told.failure != "":
		return phase.Observation{State: phase.Failed, Message: told.failure}
	case told.unknown:
		return phase.Observation{Waiting: unanswered(told.why)}
	case found.State == phase.Idle || found.State == phase.Ready:
		found.Waiting = unanswered(s.memory.unstarted[key])
	}
	return found
}

// renderArtifacts of an action that has ended well.
func (s *syncing) renderArtifacts(ctx context.Context, a renderArtifacts) (r renderedArtifacts) {
	action := &a.run.Actions[a.action]
	f, err := s.fetch(ctx, action)
	if err == nil {
		_, err = s.fetchObjects(ctx, &f, action, &a.status.Actions[a.action], nil)
	}
	doing := fmt.Sprintf("rendering the artifacts of action %d", a.action)
	if r.outcome = s.outcomeOf(doing, err); err != nil {
		return r
	}
	b := blueprint.NewBudget(ctx)
	r.artifacts, err = inTurn(b, func() (map[string]v1alpha1.Artifact, error) { return renderOutput(b, a.run, a.action, a.status, f) })
	r.outcome = s.outcomeOf(doing, err)
	return r
}

// functionOf a phase of the frozen run; nil if there is none in it.
func (s *syncing) functionOf(key phaseKey) phase.Function {
	if s.o.run == nil {
		return s.functions.Forgotten()
	}
	if called := s.o.run.phaseOf(key); called != nil {
		return s.functions.Get(called.Func)
	}
	return nil
}

func (s *syncing) id(key phaseKey) phase.ID {
	return phase.ID{Namespace: s.key.Namespace, Name: s.key.Name, UID: s.o.set.UID, Action: key.action, Phase: key.phase}
}

// callOf a phase whose intent is recorded, without its arguments.
func (s *syncing) callOf(key phaseKey) (phase.Call, error) {
	call := phase.Call{ID: s.id(key)}
	if s.o.run != nil && key.action < len(s.o.run.Actions) {
		call.Action = s.o.run.Actions[key.action].call()
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
		return call, fmt.Errorf("reading the intent of phase %s in the status of ActionSet %s: %w", of.Name, s.key, err)
	}
	call.Intent = intent
	return call, nil
}

// callWithArgs likewise, with arguments that are rendered anew where this process has not done so.
func (s *syncing) callWithArgs(ctx context.Context, key phaseKey) (phase.Call, error) {
	call, err := s.callOf(key)
	if err != nil {
		return call, err
	}
	if args, known := s.memory.args[key]; known {
		call.Args = args
		return call, nil
	}
	action, index := &s.o.run.Actions[key.action], key.phase
	f, err := s.fetch(ctx, action)
	if err != nil {
		return call, err
	}
	missing, err := s.fetchObjects(ctx, &f, action, &s.o.set.Status.Actions[key.action], &index)
	if err = errors.Join(missing, err); err != nil {
		return call, err
	}
	if call.Args, err = s.args(ctx, prepare{key, s.o.run, s.o.set.Status}, f); err != nil {
		return call, err
	}
	s.memory.keep(key, call.Args)
	return call, nil
}

// call is what functions know of the action.
func (a *runAction) call() phase.Action {
	override, _ := objectOf(a.Spec.PodOverride) // it was read when the arguments were rendered
	return phase.Action{
		Namespace:   a.Subject.inNamespace(),
		Custom:      a.Subject.custom(),
		StatefulSet: a.Subject.StatefulSet, Deployment: a.Subject.Deployment,
		PodOverride: override, PodLabels: a.Spec.PodLabels, PodAnnotations: a.Spec.PodAnnotations,
	}
}
