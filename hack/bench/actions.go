// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"

	"millwright.dev/pkg/apis/cr/v1alpha1"
)

const (
	// phasesPerAction is how many phases the one action of each ActionSet has. Each creates a ConfigMap.
	phasesPerAction = 3
	// latencies is how many ActionSets are created one by one, and latencyPause is between two of them: so long that none waits for
	// another.
	latencies, latencyPause = 500, 50 * time.Millisecond

	blueprintName  = "creates"
	actionSetsSeen = "ActionSets"
)

// onlyActions are the flags of an operator that runs ActionSets, and nothing else.
var onlyActions = []string{"--controllers=actionset"}

// actionsOutcome is what was measured of ActionSets.
type actionsOutcome struct {
	start *contest
	// latencies are from the creation of an ActionSet until its first effect is seen, and roundTrips until itself is seen, in seconds.
	latencies, roundTrips []float64
}

func (b *bench) measureActions(ctx context.Context) error {
	b.measured.actions = &actionsOutcome{start: &contest{workload: actionsOf(b.actions)}}
	if err := b.hold(ctx, b.measured.actions.start); err != nil {
		return err
	}
	return b.measureActionLatency(ctx)
}

// actionsOf is a cold start of ActionSets.
func actionsOf(count int) *workload {
	return &workload{
		resource: v1alpha1.Resource("actionsets").WithVersion(v1alpha1.GroupVersion.Version),
		count:    count,
		prepare:  createBlueprint,
		create: func(ctx context.Context, p *population, name string) error {
			return errors.Join(p.createSubject(ctx, name), p.createActionSet(ctx, name))
		},
		observe: func(ctx context.Context, p *population, o *observer) error {
			if err := p.observeActionSets(ctx, o, markOfActionSet); err != nil {
				return err
			}
			return o.followEvents(ctx, p, "ActionSet")
		},
		requests: []string{"GET configmaps", "POST secrets", "DELETE secrets", "POST configmaps", "PUT actionsets/status"},
		phases: []phase{{
			name: "cold start", title: fmt.Sprintf("cold start of %%d ActionSets of %d phases, until all are complete", phasesPerAction),
			milestones: []milestone{{kind: actionSetsSeen, mark: string(v1alpha1.StateComplete)}}, events: 2 + 2*phasesPerAction,
			// The subject, the frozen run comes and goes, each phase with its effect, a status before each and at the end, and for
			// events the start and the end of the action and of each phase.
			requestsGoal: 1 + 2 + phasesPerAction + (phasesPerAction + 1) + 2 + 2*phasesPerAction,
		}},
		flags: onlyActions,
	}
}

// createBlueprint creates the one whose action all ActionSets of the namespace run.
func createBlueprint(ctx context.Context, p *population) error {
	blueprint := &v1alpha1.Blueprint{ObjectMeta: metav1.ObjectMeta{Name: blueprintName}}
	var action v1alpha1.BlueprintAction
	for i := range phasesPerAction {
		args, err := json.Marshal(map[string]any{
			"operation": "create", "namespace": p.namespace,
			"spec": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Options.name }}-%d'}\ndata: {at: '{{ .Time }}'}\n", i+1),
		})
		if err != nil {
			return err
		}
		action.Phases = append(action.Phases, v1alpha1.BlueprintPhase{Name: fmt.Sprint("phase", i+1), Func: "KubeOps", Args: &runtime.RawExtension{Raw: args}})
	}
	blueprint.Actions = map[string]v1alpha1.BlueprintAction{"go": action}
	if _, err := p.client.CrV1alpha1().Blueprints(p.namespace).Create(ctx, blueprint, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating Blueprint %s/%s: %w", p.namespace, blueprintName, err)
	}
	return nil
}

// The names of an ActionSet's ConfigMaps: what is read of requests tells by them whose they are.
func subjectName(actionSet string) string     { return actionSet + "-subject" }
func firstEffectName(actionSet string) string { return actionSet + "-1" }

func (p *population) createSubject(ctx context.Context, actionSet string) error {
	subject := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: subjectName(actionSet)}}
	if _, err := p.kubeClient.CoreV1().ConfigMaps(p.namespace).Create(ctx, subject, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating ConfigMap %s/%s: %w", p.namespace, subject.Name, err)
	}
	return nil
}

func (p *population) createActionSet(ctx context.Context, name string) error {
	_, err := p.client.CrV1alpha1().ActionSets(p.namespace).Create(ctx, &v1alpha1.ActionSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: &v1alpha1.ActionSetSpec{Actions: []v1alpha1.ActionSpec{{
			Name: "go", Blueprint: blueprintName, Options: map[string]string{"name": name},
			Object: v1alpha1.ObjectReference{APIVersion: "v1", Resource: "configmaps", Kind: "ConfigMap", Name: subjectName(name), Namespace: p.namespace},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating ActionSet %s/%s: %w", p.namespace, name, err)
	}
	return nil
}

func (p *population) observeActionSets(ctx context.Context, o *observer, mark marker) error {
	return o.follow(ctx, actionSetsSeen, metav1.ListOptions{}, p.client.CrV1alpha1().ActionSets(p.namespace).Watch, mark)
}

// markOfActionSet is its state once nothing more will be written.
func markOfActionSet(event watch.Event) (key, mark string) {
	set := event.Object.(*v1alpha1.ActionSet)
	if set.Status != nil && set.Status.CompletionTime != nil {
		mark = string(set.Status.State)
	}
	return set.Name, mark
}

// sightings are when things were first seen, by name.
type sightings struct {
	mu    sync.Mutex
	first map[string]time.Time
}

// noting what the marker marks.
func (s *sightings) noting(mark marker) marker {
	return func(event watch.Event) (string, string) {
		name := event.Object.(metav1.Object).GetName()
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, seen := s.first[name]; !seen {
			s.first[name] = time.Now()
		}
		return mark(event)
	}
}

func (s *sightings) of(name string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first[name]
}

// measureActionLatency creates ActionSets one by one while the operator has nothing else to do.
func (b *bench) measureActionLatency(ctx context.Context) (err error) {
	p, err := b.newPopulation(ctx, latencies)
	if err != nil {
		return err
	}
	err = errors.Join(createBlueprint(ctx, p), inParallel(ctx, p.count, func(ctx context.Context, i int) error { return p.createSubject(ctx, objectName(i)) }))
	if err != nil {
		return err
	}
	operator, err := b.startControllers(ctx, b.kubeconfig(), nil, onlyActions...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.stop()) }()
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	operator.onEnd(fail)
	if err := operator.awaitLeading(ctx, "actionset"); err != nil {
		return err
	}
	return b.measured.actions.createOneByOne(working, p)
}

// createOneByOne notes how long each takes.
func (a *actionsOutcome) createOneByOne(ctx context.Context, p *population) error {
	observing, stop := context.WithCancel(ctx)
	defer stop()
	o, seen := newObserver(), &sightings{first: map[string]time.Time{}}
	configMaps := p.kubeClient.CoreV1().ConfigMaps(p.namespace).Watch
	nothing := func(watch.Event) (key, mark string) { return "", "" }
	err := errors.Join(p.observeActionSets(observing, o, seen.noting(markOfActionSet)),
		o.follow(observing, "ConfigMaps", metav1.ListOptions{}, configMaps, seen.noting(nothing)))
	if err != nil {
		return err
	}
	begins := make([]time.Time, p.count)
	for i := range begins {
		begins[i] = time.Now()
		if err := errors.Join(p.createActionSet(ctx, objectName(i)), sleep(ctx, latencyPause)); err != nil {
			return err
		}
	}
	if _, err := o.await(ctx, p.count, milestone{kind: actionSetsSeen, mark: string(v1alpha1.StateComplete)}); err != nil {
		return err
	}
	for i, begin := range begins {
		a.roundTrips = append(a.roundTrips, seen.of(objectName(i)).Sub(begin).Seconds())
		a.latencies = append(a.latencies, seen.of(firstEffectName(objectName(i))).Sub(begin).Seconds())
	}
	return nil
}
