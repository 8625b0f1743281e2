// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package actionset

import "time"

const (
	// minCleanUpRetry and maxCleanUpRetry limit the delay after which the clean-up of a phase is tried again while the run goes on. It doubles.
	minCleanUpRetry, maxCleanUpRetry = time.Minute, 15 * time.Minute
	// cleanUpLimit is how long the clean-up of a phase is refused after the end of the run until it is given up. An outage of the API server ends, and then the
	// clean-up goes on.
	cleanUpLimit = 5 * time.Minute
)

// phaseCleanUp is the clean-up of one phase.
type phaseCleanUp struct {
	// clean: the phase had left nothing when it was looked at, or nothing any more. atEnd: that was after the end of the run.
	clean, atEnd bool
	// again is when it is tried again while the run goes on, and delay how long after the last try.
	again time.Time
	delay time.Duration
	// refusedSince is since when it is refused after the end of the run; zero if the last try was not refused.
	refusedSince time.Time
	// givenUp: it is not tried any more.
	givenUp bool
}

// cleanUpStage is when the clean-up of a phase is tried.
type cleanUpStage int

const (
	whileRunning cleanUpStage = iota
	afterEnd
	// terminating: the namespace of the ActionSet is being deleted, so that there is only one try.
	terminating
)

// cleanUpResult is the result of a try.
type cleanUpResult int

const (
	nothingLeft cleanUpResult = iota
	cleanUpFailed
	// cleanUpRefused: it has failed, and trying again may not help.
	cleanUpRefused
)

// tried returns the clean-up of a phase after a try.
func (of phaseCleanUp) tried(now time.Time, stage cleanUpStage, result cleanUpResult) phaseCleanUp {
	switch {
	case result == nothingLeft:
		return phaseCleanUp{clean: true, atEnd: stage != whileRunning}
	case stage == terminating:
		of.givenUp = true
	case stage == whileRunning:
		of.clean, of.delay = false, min(max(2*of.delay, minCleanUpRetry), maxCleanUpRetry)
		of.again = now.Add(of.delay)
	case result == cleanUpFailed:
		of.refusedSince = time.Time{}
	case of.refusedSince.IsZero():
		of.refusedSince = now
	case now.Sub(of.refusedSince) >= cleanUpLimit:
		of.givenUp = true
	}
	return of
}
