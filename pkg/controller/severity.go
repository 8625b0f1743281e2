// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package controller

import "errors"

// severity orders the errors of syncs by how they are retried and logged. Of several errors that are joined the most severe one decides.
type severity int

const (
	// severityPostponed: no failure, and no success either. Not retried: the sync asks for a requeue, or has something that queues its key.
	severityPostponed severity = iota
	// severityPermanent: not retried. Any other error of the same sync is retried all the same.
	severityPermanent
	// severityInvalid: like a failure, at least every maxInvalidDelay.
	severityInvalid
	// severityConflict: an optimistic-lock conflict, retried quietly.
	severityConflict
	// severityOwnerUnknown: retried quietly, at least every maxOwnerUnknownDelay.
	severityOwnerUnknown
	// severityOutage: retried at least every maxOutageDelay.
	severityOutage
	// severityFailure: retried with growing delay.
	severityFailure
	// severityPanic: like a failure, with the stack.
	severityPanic
)

// severityOf returns the severity of an error that is not nil.
func severityOf(err error) severity {
	switch e := err.(type) {
	case *permanentError:
		return severityPermanent
	case *invalidError:
		return severityInvalid
	case interface{ Unwrap() []error }:
		worst := severityPostponed
		for _, joined := range e.Unwrap() {
			worst = max(worst, severityOf(joined))
		}
		return worst
	}
	if isJoined(err) {
		return severityOf(errors.Unwrap(err))
	}
	var panicked *panicError
	switch {
	case errors.As(err, &panicked):
		return severityPanic
	case errors.Is(err, ErrPostponed):
		return severityPostponed
	case isConflict(err):
		return severityConflict
	case isOutage(err):
		return severityOutage
	case IsOwnerUnknown(err):
		return severityOwnerUnknown
	default:
		return severityFailure
	}
}

// IsRetriedQuietly reports whether the loop retries the error quietly: the sync decided from a stale cache, or the API server does not know the
// owner's kind yet. An error is not, if a failure is joined to it.
func IsRetriedQuietly(err error) bool {
	if err == nil {
		return false
	}
	worst := severityOf(err)
	return worst == severityConflict || worst == severityOwnerUnknown
}

// isJoined reports whether the error wraps a marked error or one that is made of several.
func isJoined(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		switch err.(type) {
		case *permanentError, *invalidError, interface{ Unwrap() []error }:
			return true
		}
	}
	return false
}
