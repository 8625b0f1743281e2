// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// PodNotComplete begins the message of a Pod that has failed, as in Kanister: also where it has ended in time, with an exit code.
const PodNotComplete = "Failed while waiting for Pod to complete: Pod failed to complete in time: "

// Failure is an error that ends a phase. Its text is for users.
type Failure struct{ Message string }

func (f *Failure) Error() string { return f.Message }

// Failf returns a *Failure.
func Failf(format string, args ...any) error { return &Failure{fmt.Sprintf(format, args...)} }

// FailureOf returns the text of a *Failure in the error's chain; ok is false if there is none.
func FailureOf(err error) (message string, ok bool) {
	var failure *Failure
	if !errors.As(err, &failure) {
		return "", false
	}
	return failure.Message, true
}

// WaitError is an error of a method that cannot do anything yet. It is called again until what it waits for has happened. The error has no cause: that
// of the API server may be one that ends a phase, such as a missing right of an aggregated API.
type WaitError struct{ Waiting Waiting }

func (w *WaitError) Error() string { return "waiting for " + w.Waiting.For + ": " + w.Waiting.Details }

// Definitive converts an error of the API server that a retry does not change to a *Failure. Its text is that of the API server, without
// what the operator was doing.
func Definitive(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err
	}
	switch code := answer.Status().Code; {
	case code >= http.StatusInternalServerError, code == http.StatusTooManyRequests, code == http.StatusConflict && apierrors.IsConflict(err),
		code == http.StatusUnauthorized, apierrors.IsResourceExpired(err): // of a list that is read in pages
		return err
	default:
		return &Failure{answer.Status().Message}
	}
}

// Ended returns the observation of a call that has ended because of a *Failure. Any other error is returned.
func Ended(err error) (Observation, error) {
	if message, ok := FailureOf(err); ok {
		return Observation{State: Failed, Message: message}, nil
	}
	return Observation{}, err
}
