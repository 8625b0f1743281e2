// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrPostponed is the error of a sync that could not decide yet, because its caches are stale or because it has to wait for its turn, or that has
// done only a part. It is neither a failure nor a success: the loop queues the key only if the sync asks for that, and the backoff of a key that has failed
// goes on.
var ErrPostponed = errors.New("the sync is postponed")

// Permanent marks an error that only a change of the object can fix: the loop reports it and does not retry.
// The controller shows it in the object's status. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether the loop does not retry the error: it is marked with Permanent, and so are all errors that are joined to it, apart from
// ErrPostponed.
func IsPermanent(err error) bool { return err != nil && severityOf(err) == severityPermanent }

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Invalid marks the error of a write that the API server has rejected as invalid. Usually only a change of the object's spec helps, but a default of a
// LimitRange, or a change of an admission webhook, may have been the cause. So the loop retries it with a delay that grows to maxInvalidDelay.
// Invalid(nil) is nil.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return &invalidError{err}
}

type invalidError struct{ err error }

func (e *invalidError) Error() string { return e.err.Error() }
func (e *invalidError) Unwrap() error { return e.err }

// panicError is the error of a sync that panicked.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// isConflict reports whether the error is an optimistic-lock conflict: a write was rejected because its resourceVersion was not the newest, so
// the sync has to decide again. A field-manager conflict (also 409) is not one.
func isConflict(err error) bool {
	return apierrors.IsConflict(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// IsTooLarge reports whether an object was rejected because it is larger than the API server or etcd accepts, so that no retry helps. There are
// three limits: the API server's own, 3 MiB of JSON, has a status; those of its client of etcd, 2 MiB, and of etcd, 1.5 MiB, are internal
// errors, which only their text distinguishes.
func IsTooLarge(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	status := answer.Status()
	return status.Code == http.StatusRequestEntityTooLarge || strings.Contains(status.Message, "etcdserver: request is too large") ||
		strings.Contains(status.Message, "trying to send message larger than max")
}

// isOutage reports whether the API server was not reached, was overloaded, or failed: the object is not the cause.
func isOutage(err error) bool {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return !IsTooLarge(err) && (answer.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err))
	}
	var unanswered *url.Error
	return errors.As(err, &unanswered)
}
