// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"millwright.dev/pkg/controller"
)

// A run may have a thousand phases to prepare, to poll, to start and to stop. One sync does only a part of that: it would keep a worker for minutes, and the
// answers would take the memory of the process. What it has found is recorded in the status, and the key is queued again. The syncs until each phase had
// its turn are a round. A process that is new begins another one: nothing of a round is needed to continue a run.
const (
	// maxLooking, maxAsking and maxActing are how long a sync may look for what phases have left, answer asks, and start and stop phases, until it begins the
	// last of each.
	maxLooking = 5 * time.Second
	maxAsking  = 5 * time.Second
	maxActing  = 5 * time.Second
	// maxAnswers is about how much memory the answers of a sync may take until it begins the last one, in bytes.
	maxAnswers = 8 << 20
	// maxFirstWork is how many times a blueprint.Budget the artifacts of all actions without phases may take, which are rendered when the run starts.
	maxFirstWork = 20
	// nextOfRound is the delay until the next sync of a round, and afterRound the one after it: no event reports what has happened to a phase after its turn.
	nextOfRound = time.Millisecond
	afterRound  = time.Second
	// afterFailedLooks is the delay after a round in which only a look for what a phase has left has failed.
	afterFailedLooks = time.Minute
)

var (
	// errIncomplete is the error of a sync that has left something to the next one of its round.
	errIncomplete = fmt.Errorf("the sync has used its share of the time or memory: %w", controller.ErrPostponed)
	// errNotActed is the error of steps of which some have failed, or were left to the next sync. The steps after them are not applied.
	errNotActed = errors.New("some phases could not be started or stopped")
)

// roundPart is an ask or a step that is done once in a round.
type roundPart interface {
	String() string
	about() roundKey
}

// roundKey identifies a roundPart. The phase of one about an action is 0.
type roundKey struct {
	phaseKey
	kind roundKind
}

type roundKind int

const (
	roundPrepare roundKind = iota
	roundPoll
	roundPollStopping
	roundArtifacts
	roundFirstArtifacts // of actions without phases
	roundCancel
	roundCleanUp
	roundLeft
)

func (a preparePhase) about() roundKey { return roundKey{a.key, roundPrepare} }

func (a pollPhase) about() roundKey {
	if a.stopping {
		return roundKey{a.key, roundPollStopping}
	}
	return roundKey{a.key, roundPoll}
}

func (a renderArtifacts) about() roundKey {
	kind := roundArtifacts
	if a.begins {
		kind = roundFirstArtifacts
	}
	return roundKey{phaseKey{action: a.action}, kind}
}

func (s cancelPhase) about() roundKey { return roundKey{s.key, roundCancel} }
func (s cleanUp) about() roundKey     { return roundKey{s.key, roundCleanUp} }

// share is the part of a round that one sync does.
type share struct {
	// looking, asking, rendering and acting are when it began to look for what phases have left, to answer asks, those for artifacts, and to start and stop
	// phases.
	looking, asking, rendering, acting time.Time
	// answers is about how much memory the answers take, in bytes.
	answers int
	// firstBytes is the size of the artifacts of actions without phases, and firstWork the part of a blueprint.Budget that they have taken.
	firstBytes int
	firstWork  float64
	// done is what it has done.
	done sets.Set[roundKey]
	// incomplete: there was no time or memory for an ask or a step. looksLeft: there was no time to look for what all phases have left.
	incomplete, looksLeft bool
	// cleanUpLogged: the clean-up of a phase has failed while the run went on. cleanUpFailed: one has failed after its end.
	cleanUpLogged, cleanUpFailed bool
	// continues: the round goes on with the next sync.
	continues bool
	// failures are why phases could not be started or stopped, or why one could not be cleaned up after the end of the run.
	failures []error
}

// mayLook reports whether it may be looked for what another phase has left. The first one may.
func (s *share) mayLook() bool {
	s.looksLeft = !within(&s.looking, maxLooking)
	return !s.looksLeft
}

// mayAsk reports whether an ask may be answered. The first one may. Artifacts have a time of their own, because the end of an action is recorded together
// with them, and those of actions without phases have none: they are bounded by firstWork.
func (s *share) mayAsk(kind roundKind) bool {
	began := &s.asking
	switch kind {
	case roundFirstArtifacts:
		return true
	case roundArtifacts:
		began = &s.rendering
	}
	first := began.IsZero()
	may := within(began, maxAsking) && (first || s.answers < maxAnswers)
	s.incomplete = s.incomplete || !may
	return may
}

// mayAct reports whether another phase may be started or stopped. The first one may. A start may render arguments, which are limited as answers are.
func (s *share) mayAct() bool {
	if s.acting.IsZero() {
		s.answers = 0
	}
	may := within(&s.acting, maxActing) && s.answers < maxAnswers
	s.incomplete = s.incomplete || !may
	return may
}

// within reports whether less time than the limit has passed since what has begun. If nothing has, it begins.
func within(began *time.Time, limit time.Duration) bool {
	if began.IsZero() {
		*began = time.Now()
	}
	return time.Since(*began) < limit
}

// finish records that something was done.
func (s *share) finish(done roundKey) {
	if s.done == nil {
		s.done = sets.New[roundKey]()
	}
	s.done.Insert(done)
}

// pollAgain has a phase polled by the next sync although it had its turn.
func (s *share) pollAgain(key phaseKey) {
	s.done.Delete(pollPhase{key: key}.about())
	s.done.Delete(pollPhase{key: key, stopping: true}.about())
}

// round is what the syncs of a round have done so far.
type round struct {
	done sets.Set[roundKey]
	// failed: something has failed, which is tried again in the next round. incomplete: an ask or a step was left to the next sync.
	failed, incomplete bool
	// took is how long the syncs have taken.
	took time.Duration
}

// endShare remembers what this sync has done of its round, unless it has failed before that was recorded. It returns the delay until the next sync, if
// nothing happens earlier.
func (s *syncer) endShare(after time.Duration, failed bool) time.Duration {
	m := s.memory
	switch {
	case failed:
		s.share.continues = m.round != nil
		return after
	case !hasStarted(s.o.set.Status) && !hasFinished(s.o.set.Status):
		m.round = nil // nothing of a start is recorded before all of it is
		return after
	case s.share.incomplete || s.share.looksLeft:
		if m.round == nil {
			m.round = &round{done: sets.New[roundKey]()}
		}
		for key := range s.share.done {
			// Where only looks are left, the last sync asks again: nothing that happens meanwhile is missed.
			if s.share.incomplete || key.kind == roundLeft {
				m.round.done.Insert(key)
			}
		}
		m.round.failed = m.round.failed || len(s.share.failures) > 0
		m.round.incomplete = m.round.incomplete || s.share.incomplete
		s.share.continues = true
		return nextOfRound
	case m.round != nil && m.round.incomplete:
		return controller.EarliestDelay(after, afterRound)
	case m.round != nil && m.round.failed:
		return controller.EarliestDelay(after, afterFailedLooks)
	default:
		return after
	}
}
