// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
		set: set, executor: s.executor, rendered: s.memory.rendered, prepareAgain: s.memory.prepareAgain,
		continued: s.memory.continued, stopTried: s.memory.stopTried,
		recordedEvent: s.memory.recordedEvent, launchingShown: s.memory.launchingShown, now: time.Now(),
		blueprints: map[string]*v1alpha1.Blueprint{},
		prepared:   map[phaseKey]preparation{}, polled: map[phaseKey]phase.Observation{},
		round: sets.New[roundKey](), outOfTime: sets.New[roundKind](),
		waiting: map[phaseKey]phaseWait{}, artifacts: map[int]renderedArtifacts{},
	}
	if r := s.memory.round; r != nil {
		s.o.round, s.o.leftUnknown = r.done.Clone(), r.failed
	}
	if foreignEnded(set.Status) || foreignStarted(set.Status) {
		if slices.Contains(set.Finalizers, Finalizer) { // this controller has created a snapshot, too
			return s.gatherSnapshot(ctx)
		}
		return nil
	}
	if set.DeletionTimestamp != nil && (!hasFinished(set.Status) || slices.Contains(set.Finalizers, Finalizer)) {
		s.o.namespaceTerminating, err = phase.IsNamespaceGone(ctx, s.KubeClient, s.key.Namespace)
		if err != nil && !isRefusal(err) {
			return err
		}
		if err != nil { // the ActionSet is deleted as in any namespace
			klog.FromContext(ctx).V(2).Info("Assuming that the namespace is not being deleted", "err", err)
		}
	}
	switch {
	case s.o.namespaceTerminating:
		if err := s.gatherTerminating(ctx); err != nil {
			return err
		}
		if hasStarted(set.Status) || hasFinished(set.Status) {
			s.gatherLeftovers(ctx)
		}
	case hasStarted(set.Status) || hasFinished(set.Status):
		if err := s.gatherSnapshot(ctx); err != nil {
			return err
		}
		if s.o.snapshotUnread() {
			return nil
		}
		s.o.takenOver = !s.memory.snapshotCreated && !executedBy(set.Status, s.executor)
		s.gatherLeftovers(ctx)
	case set.DeletionTimestamp != nil:
		if slices.Contains(set.Finalizers, Finalizer) { // the snapshot may be created although the run was not started
			return s.gatherSnapshot(ctx)
		}
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

// gatherSnapshot reads the snapshot of an ActionSet that has one, or has had one. A run that goes on waits for a snapshot that is refused, or cannot be
// decrypted. What one that has ended has left is found without it.
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
		if s.memory.cleanedUp = s.memory.cleanedUp || hasLongEnded(set); s.memory.cleanedUp {
			return nil
		}
		if s.memory.cleanUp.phases[ofSnapshotRead.phaseKey].givenUp {
			return nil
		}
	}
	err := s.getSnapshot(ctx)
	if err == nil || errors.Is(err, errAwaitsTurn) || ctx.Err() != nil {
		return err
	}
	refused := isRefusal(err) || isUndecryptable(err)
	if s.goesOn() {
		if !refused {
			return err
		}
		s.problem, s.o.leftUnknown = err, true
		s.memory.rememberWaiting(&s.o, ofSnapshot.phaseKey, phase.Waiting{For: "its snapshot, which cannot be read", Details: err.Error()})
		return nil
	}
	if isUndecryptable(err) && set.DeletionTimestamp != nil { // the deletion does not wait for a key that may be lost
		err = &phase.Failure{Message: err.Error()}
	}
	_ = s.cleanedUp(ctx, ofSnapshotRead, err) // it has recorded the failure
	if !refused {
		return err
	}
	return nil
}

// isUndecryptable reports whether the API server has answered that it cannot decrypt an object: the key may be lost, or its service may not answer.
func isUndecryptable(err error) bool {
	return apierrors.IsInternalError(err) && !apierrors.IsUnexpectedServerError(err)
}

// getSnapshot reads the snapshot from the API server. One that takes much memory needs a turn, and so does a run that reads many objects: without a turn
// nothing is kept of the snapshot.
func (s *syncer) getSnapshot(ctx context.Context) error {
	s.memory.readsMany = false
	name := snapshotName(s.o.set)
	secret, err := s.KubeClient.CoreV1().Secrets(s.key.Namespace).Get(ctx, name, getOptions)
	if err == nil || apierrors.IsNotFound(err) {
		s.memory.rememberWaiting(&s.o, ofSnapshot.phaseKey, phase.Waiting{})
		delete(s.memory.cleanUp.phases, ofSnapshotRead.phaseKey)
	}
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
		if s.o.foreignSnapshot = !s.goesOn() && isSnapshotOf(s.o.set, secret); s.o.foreignSnapshot {
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
