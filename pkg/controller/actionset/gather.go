// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/jsonscan"
	"millwright.dev/pkg/phase"
)

// cleanUpPeriod is how long after its end a run is cleaned up by a process that does not know it. An older run without a finalizer can only have
// left the Secret with the snapshot, which is deleted with the ActionSet.
const cleanUpPeriod = 15 * time.Minute

// hasLongEnded reports whether a run has ended so long ago that no process cleans it up any more.
func hasLongEnded(set *v1alpha1.ActionSet) bool {
	return hasFinished(set.Status) && time.Since(set.Status.CompletionTime.Time) > cleanUpPeriod && !slices.Contains(set.Finalizers, Finalizer)
}

var getOptions = metav1.GetOptions{}

// gather observes what a plan is decided from, except for the answers to asks.
func (s *syncer) gather(ctx context.Context, set *v1alpha1.ActionSet) (err error) {
	s.o = observed{
		set: set, executor: s.executor, continued: s.memory.continued, stopTried: s.memory.stopTried, recordedEvent: s.memory.recordedEvent,
		launchingShown: s.memory.launchingShown, now: time.Now(),
		blueprints: map[string]*v1alpha1.Blueprint{},
		prepared:   map[phaseKey]preparation{}, polled: map[phaseKey]phase.Observation{},
		round: sets.New[roundKey](), outOfTime: sets.New[roundKind](),
		waiting: map[phaseKey]phaseWait{}, artifacts: map[int]renderedArtifacts{},
	}
	if r := s.memory.round; r != nil {
		s.o.round, s.o.leftUnknown = r.done.Clone(), r.failed
	}
	if foreignEnded(set.Status) || foreignStarted(set.Status) {
		return nil
	}
	if set.DeletionTimestamp != nil && !hasFinished(set.Status) {
		if s.o.namespaceTerminating, err = s.namespaceTerminating(ctx); err != nil {
			return err
		}
	}
	switch {
	case s.o.namespaceTerminating:
		return s.gatherTerminating(ctx)
	case hasStarted(set.Status) || hasFinished(set.Status):
		if err := s.gatherSnapshot(ctx); err != nil {
			return err
		}
		s.o.takenOver = !s.memory.snapshotCreated && !executedBy(set.Status, s.executor)
		s.gatherLeftovers(ctx)
	case set.Spec != nil:
		// The snapshot may be created although the run was not started, because the status could not be written.
		s.o.snapshot, s.o.snapshotID = s.memory.snapshot, s.memory.snapshotID
		s.o.takenOver = s.o.snapshot != nil && !s.memory.snapshotCreated
		if s.memory.readsMany {
			if err := s.takeTurn(); err != nil {
				return err
			}
		}
		err := s.gatherBlueprints(ctx)
		switch {
		case errors.Is(err, controller.ErrPostponed) || ctx.Err() != nil:
			return err
		case err != nil:
			s.problem, s.o.blueprintsProblem = err, err.Error()
		}
	}
	return nil
}

// gatherTerminating reads the snapshot in a terminating namespace, if it can. The RoleBindings in the namespace may be deleted before the
// ActionSets: then what runs in other namespaces is not stopped. Its error is errAwaitsTurn if it needs a turn.
func (s *syncer) gatherTerminating(ctx context.Context) error {
	if !s.memory.startedFrom(s.o.set.Status) {
		err := s.getSnapshot(ctx)
		if errors.Is(err, errAwaitsTurn) {
			return err
		}
		if err != nil {
			klog.FromContext(ctx).Info("Failed to read the snapshot of an ActionSet; its namespace is terminating", "err", err)
		}
	}
	if s.memory.startedFrom(s.o.set.Status) {
		s.o.snapshot, s.o.snapshotID = s.memory.snapshot, s.memory.snapshotID
	}
	return nil
}

// gatherSnapshot reads the snapshot of an ActionSet that has one, or has had one.
func (s *syncer) gatherSnapshot(ctx context.Context) error {
	set := s.o.set
	if s.memory.readsMany && !hasFinished(set.Status) {
		if err := s.takeTurn(); err != nil {
			return err
		}
	}
	if s.memory.startedFrom(set.Status) {
		s.o.snapshot, s.o.snapshotID = s.memory.snapshot, s.memory.snapshotID
		return nil
	}
	if hasFinished(set.Status) {
		if s.memory.cleanedUp = s.memory.cleanedUp || hasLongEnded(set) || !hasStarted(set.Status); s.memory.cleanedUp {
			return nil
		}
	}
	return s.getSnapshot(ctx)
}

// getSnapshot reads the snapshot from the API server. One that takes much memory needs a turn, and so does a run that reads many objects: without a turn
// nothing is kept of the snapshot.
func (s *syncer) getSnapshot(ctx context.Context) error {
	s.memory.readsMany = false
	name := snapshotName(s.o.set)
	secret, err := s.KubeClient.CoreV1().Secrets(s.key.Namespace).Get(ctx, name, getOptions)
	switch {
	case apierrors.IsNotFound(err):
		// The finalizer is removed last, so the clean-up is complete without it.
		s.memory.cleanedUp = hasFinished(s.o.set.Status) && !slices.Contains(s.o.set.Finalizers, Finalizer)
		return nil
	case err != nil:
		return fmt.Errorf("reading Secret %s/%s with the snapshot: %w", s.key.Namespace, name, err)
	}
	phase.AddReads(ctx, 1, len(secret.Data[snapshotKey]))
	if jsonscan.DecodedMemory(secret.Data[snapshotKey]) > smallReads {
		if err := s.takeTurn(); err != nil {
			return err
		}
	}
	r, err := readSnapshot(s.o.set, secret)
	if err != nil {
		s.o.snapshotDamage = err.Error()
		if s.o.foreignSnapshot = hasFinished(s.o.set.Status) && isSnapshotOf(s.o.set, secret); s.o.foreignSnapshot {
			s.o.snapshotID = snapshotIDOf(secret)
		}
		return nil
	}
	if !hasFinished(s.o.set.Status) {
		if err := s.takeTurnToRun(r); err != nil {
			return err
		}
	}
	s.keepSnapshot(ctx, r, secret)
	return nil
}

// gatherLeftovers finds the phases that have ended and have left something, as far as there is time, and each phase once in a round. After the clean-up of a
// run only caches are read. What is not known holds up the end of the clean-up, not the run.
func (s *syncer) gatherLeftovers(ctx context.Context) {
	found := map[phaseKey]bool{}
	for _, id := range s.functions.Found(s.key.Namespace, s.key.Name) {
		if id.UID == s.o.set.UID {
			found[phaseKey{id.Action, id.Phase}] = true
		}
	}
	for _, key := range s.endedPhases() {
		looked := roundKey{key, roundLeft}
		leaver, ok := s.functionOf(key).(phase.Leaver)
		if !ok || found[key] || s.o.round.Has(looked) {
			continue
		}
		if !s.share.mayLook() {
			s.o.leftUnknown = true
			break
		}
		call, err := s.callOf(key)
		if err == nil {
			found[key], err = leaver.Left(ctx, call)
		}
		if err != nil && len(s.share.failures) == 0 { // those of the others are likely to be the same
			s.share.failures = append(s.share.failures, fmt.Errorf("looking for what phase %s has left: %w", key, err))
		}
		s.o.leftUnknown = s.o.leftUnknown || err != nil
		if !found[key] {
			s.share.finish(looked)
		}
	}
	for key, left := range found {
		if left {
			s.o.leftovers = append(s.o.leftovers, key)
		}
	}
}

// endedPhases returns the ended phases of a run that may have left something; none after the clean-up of the run. Without a snapshot, all phases
// have ended.
func (s *syncer) endedPhases() (keys []phaseKey) {
	if s.memory.cleanedUp {
		return nil
	}
	for i := range s.o.set.Status.Actions {
		for p := phase.Deferred; p < len(s.o.set.Status.Actions[i].Phases); p++ {
			key := phaseKey{i, p}
			of := phaseIn(s.o.set.Status, key)
			ended := s.o.snapshot == nil || of.CompletionTime != nil && s.o.snapshot.traits(key).LeavesBehind
			if ended && of.Intent != nil {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// namespaceTerminating reports whether the namespace is terminating.
func (s *syncer) namespaceTerminating(ctx context.Context) (bool, error) {
	namespace, err := s.KubeClient.CoreV1().Namespaces().Get(ctx, s.key.Namespace, getOptions)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading Namespace %s: %w", s.key.Namespace, err)
	}
	return namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating, nil
}
