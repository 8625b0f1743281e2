// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/phase"
)

// tidiedAfter is how long after its end a run is looked at by a process that does not know it. What is left of an older one has
// no finalizer to tell of it: it is the Secret with the frozen run, and goes with the ActionSet.
const tidiedAfter = 15 * time.Minute

var getOptions = metav1.GetOptions{}

// gather observes all that is decided from, but for what has to be asked.
func (s *syncing) gather(ctx context.Context, set *v1alpha1.ActionSet) (err error) {
	s.o = observed{
		set: set, identity: s.identity, said: s.memory.said, now: time.Now(), blueprints: map[string]*v1alpha1.Blueprint{},
		prepared: map[phaseKey]preparation{}, polled: map[phaseKey]phase.Observation{}, waiting: map[phaseKey]waiting{}, artifacts: map[int]renderedArtifacts{},
	}
	if endedElsewhere(set.Status) || startedElsewhere(set.Status) {
		return nil
	}
	if set.DeletionTimestamp != nil && !finished(set.Status) {
		if s.o.namespaceGoes, err = s.namespaceGoes(ctx); err != nil {
			return err
		}
	}
	switch {
	case s.o.namespaceGoes:
		s.gatherRunOfNamespaceThatGoes(ctx)
	case launched(set.Status) || finished(set.Status):
		if err := s.gatherRun(ctx); err != nil {
			return err
		}
		s.o.adopted = !s.memory.made && !startedBy(set.Status, s.identity)
		if err := s.gatherLeftovers(ctx); err != nil {
			return err
		}
	case set.Spec != nil:
		s.o.run, s.o.snapshot = s.memory.run, s.memory.snapshot // frozen, but not launched: its status could not be written
		s.o.adopted = s.o.run != nil && !s.memory.made
		if err := s.gatherBlueprints(ctx); err != nil {
			return err
		}
	}
	return nil
}

// gatherRunOfNamespaceThatGoes finds the frozen run if it can. Rights that are bound in the namespace go with it, and perhaps before the
// ActionSets do: then what runs in other namespaces is not stopped.
func (s *syncing) gatherRunOfNamespaceThatGoes(ctx context.Context) {
	if !s.memory.startedFrom(s.o.set.Status) {
		if err := s.readRun(ctx); err != nil {
			klog.FromContext(ctx).Info("The frozen run of an ActionSet cannot be read; its namespace is being terminated", "err", err)
		}
	}
	if s.memory.startedFrom(s.o.set.Status) {
		s.o.run, s.o.snapshot = s.memory.run, s.memory.snapshot
	}
}

func (s *syncing) gatherBlueprints(ctx context.Context) error {
	for _, action := range s.o.set.Spec.Actions {
		name := action.Blueprint
		if s.o.blueprints[name] != nil || phase.CheckName("blueprint", name) != nil {
			continue
		}
		found, err := s.blueprints.Blueprints(s.key.Namespace).Get(name)
		if apierrors.IsNotFound(err) {
			// It may have been made just before the ActionSet, and be on its way to the cache.
			found, err = s.Client.CrV1alpha1().Blueprints(s.key.Namespace).Get(ctx, name, getOptions)
		}
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("reading Blueprint %s/%s: %w", s.key.Namespace, name, err)
		default:
			s.o.blueprints[name] = found
		}
	}
	return nil
}

// gatherRun finds the frozen run of an ActionSet that has one, or has had one.
func (s *syncing) gatherRun(ctx context.Context) error {
	set := s.o.set
	if s.memory.startedFrom(set.Status) {
		s.o.run, s.o.snapshot = s.memory.run, s.memory.snapshot
		return nil
	}
	if finished(set.Status) {
		old := time.Since(set.Status.CompletionTime.Time) > tidiedAfter && len(set.Finalizers) == 0
		if s.memory.tidied = s.memory.tidied || old || !launched(set.Status); s.memory.tidied {
			return nil
		}
	}
	return s.readRun(ctx)
}

// readRun reads the frozen run from the API server.
func (s *syncing) readRun(ctx context.Context) error {
	name := runName(s.o.set)
	secret, err := s.KubeClient.CoreV1().Secrets(s.key.Namespace).Get(ctx, name, getOptions)
	switch {
	case apierrors.IsNotFound(err):
		// The finalizer is removed last.
		s.memory.tidied = finished(s.o.set.Status) && !slices.Contains(s.o.set.Finalizers, Finalizer)
		return nil
	case err != nil:
		return fmt.Errorf("reading Secret %s/%s with the frozen run: %w", s.key.Namespace, name, err)
	}
	r, err := readRun(s.o.set, secret)
	if err != nil {
		s.o.damage = err.Error()
		if s.o.stray = finished(s.o.set.Status) && madeFor(s.o.set, secret); s.o.stray {
			s.o.snapshot = snapshotOf(secret)
		}
		return nil
	}
	s.keepRun(r, secret)
	return nil
}

// gatherLeftovers finds what phases that have ended have left. Of a run that is tidied up only what caches show is found.
func (s *syncing) gatherLeftovers(ctx context.Context) error {
	found := map[phaseKey]bool{}
	for _, id := range s.functions.Found(s.key.Namespace, s.key.Name) {
		if id.UID == s.o.set.UID {
			found[phaseKey{id.Action, id.Phase}] = true
		}
	}
	for _, key := range s.endedPhases() {
		leaver, ok := s.functionOf(key).(phase.Leaver)
		if !ok || found[key] {
			continue
		}
		call, err := s.callOf(key)
		if err != nil {
			return err
		}
		left, err := leaver.Left(ctx, call)
		if err != nil {
			return fmt.Errorf("looking for what phase %s has left: %w", key, err)
		}
		found[key] = left
	}
	for key, left := range found {
		if left {
			s.o.leftovers = append(s.o.leftovers, key)
		}
	}
	return nil
}

// endedPhases are those of a run that is not tidied up that may have left something. Where nobody knows the run any more, all of its
// phases have ended.
func (s *syncing) endedPhases() (keys []phaseKey) {
	if s.memory.tidied {
		return nil
	}
	for i := range s.o.set.Status.Actions {
		for p := phase.Deferred; p < len(s.o.set.Status.Actions[i].Phases); p++ {
			key := phaseKey{i, p}
			of := phaseIn(s.o.set.Status, key)
			ended := s.o.run == nil || of.CompletionTime != nil && s.o.run.traits(key).LeavesBehind
			if ended && of.Intent != nil {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// namespaceGoes tells whether the namespace is being terminated.
func (s *syncing) namespaceGoes(ctx context.Context) (bool, error) {
	namespace, err := s.KubeClient.CoreV1().Namespaces().Get(ctx, s.key.Namespace, getOptions)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading Namespace %s: %w", s.key.Namespace, err)
	}
	return namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating, nil
}
