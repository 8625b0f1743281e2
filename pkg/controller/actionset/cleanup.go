// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/phase"
)

const (
	// cleanUpWarning is how long the clean-up of a run that has ended fails until an event reports it.
	cleanUpWarning = 10 * time.Second
	// reasonCleanUpFailed is the reason of the events.
	reasonCleanUpFailed = "CleanUpFailed"
)

// cleanUpMemory is what this process remembers of the clean-up of a run. The zero value is ready for use.
type cleanUpMemory struct {
	// phases are those that have ended and were looked at, or cleaned up.
	phases map[phaseKey]phaseCleanUp
	// sweepAgain is when what other ActionSets of the name have left is looked for again, after a failure.
	sweepAgain time.Time
	// failingSince is when the clean-up has failed first after the end of the run; zero if it has not.
	failingSince time.Time
	// warned: an event has reported that it fails. gaveUp: one has reported that a part of it was given up.
	warned, gaveUp bool
}

// ofSnapshot stands for the deletion of the Secret with the snapshot, and ofSnapshotRead for its reading after the end of the run, among the phases.
var ofSnapshot, ofSnapshotRead = roundKey{phaseKey{action: -1}, roundCleanUp}, roundKey{phaseKey{action: -1, phase: 1}, roundCleanUp}

func (m *cleanUpMemory) set(key phaseKey, of phaseCleanUp) {
	if m.phases == nil {
		m.phases = map[phaseKey]phaseCleanUp{}
	}
	m.phases[key] = of
}

// waits reports whether the clean-up of a phase is not tried now.
func (m *cleanUpMemory) waits(key phaseKey, running bool) bool {
	of := m.phases[key]
	return of.givenUp || running && time.Now().Before(of.again)
}

// unclean reports whether the clean-up of a phase has failed while the run went on.
func (m *cleanUpMemory) unclean() bool {
	for _, of := range m.phases {
		if !of.clean {
			return true
		}
	}
	return false
}

// retryAfter returns the delay until the next try that was not due when the sync has begun; 0 if there is none.
func (m *cleanUpMemory) retryAfter(began time.Time, running bool) (after time.Duration) {
	add := func(at time.Time) {
		if at.After(began) {
			after = controller.EarliestDelay(after, max(time.Until(at), time.Millisecond))
		}
	}
	add(m.sweepAgain)
	if running {
		for _, of := range m.phases {
			add(of.again)
		}
	}
	return after
}

// stage returns the stage of the run that its clean-up depends on.
func (s *syncer) stage() cleanUpStage {
	switch {
	case s.o.namespaceTerminating:
		return terminating
	case hasFinished(s.o.set.Status), foreignEnded(s.o.set.Status), s.o.unwritable, s.o.set.DeletionTimestamp != nil && !hasStarted(s.o.set.Status):
		return afterEnd
	default:
		return whileRunning
	}
}

// goesOn reports whether the run goes on, so that its clean-up can be tried again.
func (s *syncer) goesOn() bool { return s.stage() == whileRunning }

func resultOfCleanUp(err error) cleanUpResult {
	switch {
	case err == nil:
		return nothingLeft
	case isRefusal(err):
		return cleanUpRefused
	default:
		return cleanUpFailed
	}
}

// cleanedUp records that a phase has left nothing, or the failure to find that out or to remove what it has left. It returns that failure, unless the clean-up
// is given up with it. While the run goes on, a failure does not fail the sync. Only what happens after its end counts for the round: it is looked at
// again at the end, maybe in the same round.
func (s *syncer) cleanedUp(ctx context.Context, part roundKey, err error) error {
	m, key, running := &s.memory.cleanUp, part.phaseKey, s.goesOn()
	if !running {
		s.share.finish(part)
	}
	of := m.phases[key].tried(time.Now(), s.stage(), resultOfCleanUp(err))
	m.set(key, of)
	switch {
	case err == nil:
		return nil
	case of.givenUp:
		s.giveUp(ctx, key, err)
		return nil
	case running:
		s.logCleanUp(ctx, key, of.delay, err)
	default:
		s.failCleanUp(err)
	}
	s.o.leftUnknown = true
	return err
}

// cleanUpSnapshot deletes the snapshot, unless that was given up. Its error is errNotActed, and the failure is recorded.
func (s *syncer) cleanUpSnapshot(ctx context.Context) error {
	if s.memory.cleanUp.phases[ofSnapshot.phaseKey].givenUp {
		return nil
	}
	if err := s.deleteSnapshot(ctx); err != nil && s.cleanedUp(ctx, ofSnapshot, err) != nil {
		return errNotActed
	}
	return nil
}

// isRefusal reports whether the API server has refused the clean-up of a phase, so that trying again may not help, or the phase cannot be read from the status.
func isRefusal(err error) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !isRefusal(err) })
	}
	_, refused := phase.FailureOf(phase.Definitive(err))
	return refused || errors.Is(err, phase.ErrUnreadableIntent)
}

// logCleanUp logs the first failure of a sync while the run goes on. Those of the other phases are likely to be the same.
func (s *syncer) logCleanUp(ctx context.Context, key phaseKey, delay time.Duration, err error) {
	if !s.share.cleanUpLogged {
		s.share.cleanUpLogged = true
		klog.FromContext(ctx).Info("Failed to clean up after a phase, trying again later", "phase", key, "retryAfter", delay, "err", err)
	}
}

// failCleanUp fails the sync with the first failure of the clean-up after the end of the run. If it has failed for a while, an event reports it.
func (s *syncer) failCleanUp(err error) {
	m := &s.memory.cleanUp
	if !s.share.cleanUpFailed {
		s.share.cleanUpFailed = true
		s.share.failures = append(s.share.failures, err)
	}
	if m.failingSince.IsZero() {
		m.failingSince = time.Now()
	}
	if !m.warned && time.Since(m.failingSince) >= cleanUpWarning {
		m.warned = true
		s.recordWarning(reasonCleanUpFailed, fmt.Sprintf("The clean-up of the run fails, and is tried again: %v", err))
	}
}

// giveUp reports that the clean-up of a phase is given up.
func (s *syncer) giveUp(ctx context.Context, key phaseKey, err error) {
	m := &s.memory.cleanUp
	first := !m.gaveUp
	m.gaveUp = true
	if s.o.namespaceTerminating {
		klog.FromContext(ctx).Info("Failed to clean up after a phase; the namespace of its ActionSet is terminating", "phase", key, "err", err)
		return
	}
	klog.FromContext(ctx).Error(err, "Gave up the clean-up after a run, which was refused", "phase", key, "for", cleanUpLimit)
	if first {
		s.recordWarning(reasonCleanUpFailed, fmt.Sprintf(
			"The clean-up of the run was refused for %s, and is given up. Objects of it may be left: kubectl get pods,secrets --all-namespaces --selector %s=%s. Refused: %v",
			cleanUpLimit, phase.LabelActionSet, s.o.set.UID, err))
	}
}
