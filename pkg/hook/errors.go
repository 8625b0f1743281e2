// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Reason is why a hook could not be called or its answer not be used, as a reason of a condition.
type Reason string

const (
	// ReasonInvalidConfiguration is that a hook can never be called as it is configured.
	ReasonInvalidConfiguration Reason = "InvalidHook"
	// ReasonCredentials is that a Secret or ConfigMap that the hook needs is missing or unusable. Nothing was sent.
	ReasonCredentials Reason = "InvalidHookCredentials"
	// ReasonBusy is that too many calls to the host are under way or waiting. Nothing was sent.
	ReasonBusy Reason = "HookHostBusy"
	// ReasonNoMemory is that the answers of other hooks take all memory that there is for answers.
	ReasonNoMemory Reason = "HookMemoryBusy"
	// ReasonSuspended is that the hook has not answered lately, and is not asked before RetryAfter. Nothing was sent.
	ReasonSuspended Reason = "HookSuspended"
	// ReasonUnreachable is that there was no answer, or not all of one.
	ReasonUnreachable Reason = "HookUnreachable"
	// ReasonTooManyRequests is an answer of 429. RetryAfter is zero where the answer does not say when to come back.
	ReasonTooManyRequests Reason = "HookTooManyRequests"
	// ReasonStatus is an answer of a status code other than 200.
	ReasonStatus Reason = "HookFailed"
	// ReasonTooLarge is a body above its limit, or one that takes more memory than one answer may. See [Options.AnswerMemory].
	ReasonTooLarge Reason = "HookResponseTooLarge"
	// ReasonInvalidJSON is a body that is not one JSON object, or is ambiguous: a key is there twice.
	ReasonInvalidJSON Reason = "HookResponseInvalidJSON"
	// ReasonInvalidResponse is a field of the wrong type, or a status that the API server does not accept.
	ReasonInvalidResponse Reason = "HookResponseInvalid"
	// ReasonUnknownField is a field that the protocol does not have, or has only once, where decoding is strict.
	ReasonUnknownField Reason = "HookResponseUnknownField"
	// ReasonInvalidChild is a child that is null, or lacks what every object has, or that the API server does not accept.
	ReasonInvalidChild Reason = "HookChildInvalid"
	// ReasonUndeclaredChild is a child of a type that the controller does not declare.
	ReasonUndeclaredChild Reason = "HookChildUndeclared"
	// ReasonDuplicateChild is a child that is in the list twice.
	ReasonDuplicateChild Reason = "HookChildDuplicate"
	// ReasonForeignNamespace is a child that its parent cannot own, for it is outside of the parent's namespace.
	ReasonForeignNamespace Reason = "HookChildForeignNamespace"
	// ReasonInvalidRelated is a rule of a customize answer that contradicts itself, or selects what its parent may not see.
	ReasonInvalidRelated Reason = "HookRelatedInvalid"
	// ReasonRelatedNotServed is a rule of a customize answer for a resource that the API server does not serve.
	ReasonRelatedNotServed Reason = "HookRelatedNotServed"
)

// Error is why a hook could not be called or its answer not be used.
type Error struct {
	Reason Reason
	// RetryAfter is when to come back, if more than zero.
	RetryAfter time.Duration
	// StatusCode is that of the answer with ReasonStatus and ReasonTooManyRequests.
	StatusCode int

	err error
	// body is an excerpt of the body of the answer.
	body string
}

// Error has nothing of the body of a failed answer: it may be logged.
func (e *Error) Error() string { return e.err.Error() }

func (e *Error) Unwrap() error { return e.err }

// Message is the text of an error, with an excerpt of the body of a failed answer where there is one: for the condition of the controller and
// the events of its parents, not for logs.
func Message(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.body != "" {
		return err.Error() + " body: " + e.body
	}
	return err.Error()
}

// ReasonOf returns the reason of an error of this package, "" of another one.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

func newError(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, err: fmt.Errorf(format, args...)}
}

// NewError returns an error of a package that judges what is only decoded here: the rules of a customize answer.
func NewError(reason Reason, format string, args ...any) *Error {
	return newError(reason, format, args...)
}

// shownText is the length of an answer in an error text, in bytes: the text goes into an event, which holds 1 kB.
const shownText = 512

func shorten(text string) string {
	if len(text) <= shownText {
		return text
	}
	return strings.ToValidUTF8(text[:shownText], "") + "..."
}
