// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/hook"
)

// ReasonUnselected is a reason that package hook does not have.
const ReasonUnselected = "HookChildNotSelected"

// problemOf returns what the author of the hook, or the administrator of the engine, can do about a failed sync; nil if nothing.
func problemOf(err error) *Problem {
	if denied, ok := errors.AsType[*deniedError](err); ok {
		return forbidden(denied.of, denied.verb)
	}
	if unseen, ok := errors.AsType[*relatedError](err); ok {
		return unseen.problem()
	}
	if unanswered, ok := errors.AsType[*DiscoveryError](err); ok {
		return unanswered.Problem()
	}
	if _, ok := errors.AsType[*tooLargeError](err); ok {
		return &Problem{v1alpha1.ReasonTooLarge, err.Error()}
	}
	if rejected, ok := errors.AsType[*rejectedError](err); ok {
		return &Problem{string(rejected.reason), controller.WithoutPorts(controller.Truncate(err.Error(), MaxMessage))}
	}
	return hookProblem(err)
}

// hookProblem returns the problem of a hook that an error is about, nil if it is about none.
func hookProblem(err error) *Problem {
	if _, ok := errors.AsType[*unselectedError](err); ok {
		return &Problem{ReasonUnselected, err.Error()}
	}
	if reason := hook.ReasonOf(err); reason != "" {
		return &Problem{string(reason), controller.WithoutPorts(hook.Message(err))}
	}
	return nil
}

// aggregationLabel is the label of the ClusterRoles whose rules the engine's account has.
const aggregationLabel = "millwright.dev/aggregate-to-engine=true"

// forbidden is the problem of missing rights on a resource, as the rule of a role that grants them.
func forbidden(of Resource, verbs ...string) *Problem {
	return &Problem{v1alpha1.ReasonForbidden, fmt.Sprintf(
		"the engine may not %s %s: add a ClusterRole with the label %s and the rule apiGroups: [%q], resources: [%q], verbs: [%s]",
		strings.Join(verbs, ", "), of.GroupResource(), aggregationLabel, of.Group, of.Resource, strings.Join(verbs, ", "))}
}

// deniedError is the error of a request for which the engine lacks a right.
type deniedError struct {
	of   Resource
	verb string
	err  error
}

func (e *deniedError) Error() string { return e.err.Error() }
func (e *deniedError) Unwrap() error { return e.err }

// finalizersDenied is the text of admission if the engine may not set blockOwnerDeletion for a parent.
const finalizersDenied = "refers to a resource you can't set finalizers on"

// isDenied reports whether RBAC forbids a request, in contrast to admission that rejects one object.
func isDenied(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && !controller.IsOwnerUnknown(err)
}

// denied wraps an error of a missing right in a deniedError, and returns others as they are.
func (s *parentSync) denied(of Resource, verb string, err error) error {
	if !isDenied(err) {
		return err
	}
	if strings.Contains(err.Error(), finalizersDenied) {
		of, verb = s.of.Resource, "update"
		of.Resource += "/finalizers"
	}
	return &deniedError{of, verb, err}
}

// rejectedError is the error of an object that the API server rejects as invalid. The hook has to be corrected, or a definition or a policy that
// the object breaks.
type rejectedError struct {
	reason hook.Reason
	err    error
}

func (e *rejectedError) Error() string { return e.err.Error() }
func (e *rejectedError) Unwrap() error { return e.err }

// asRejected wraps the error of an invalid object in a rejectedError, and returns others as they are.
func asRejected(reason hook.Reason, err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Status().Code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return &rejectedError{reason, err}
	}
	if isUntyped(err) {
		return &rejectedError{reason, err}
	}
	return err
}

// isUntyped reports whether server-side apply refuses an object that the schema of its kind does not allow: it has an unknown field, a value of another type,
// or two elements of a list that are the same one. A creation may ignore that. The API server answers with the code of an internal error, and no reason.
func isUntyped(err error) bool {
	return strings.Contains(err.Error(), "failed to create typed patch object")
}

// isUpdateRefusal reports whether the API server or admission refuses an update, and may accept a creation: a field is immutable, say.
func isUpdateRefusal(err error) bool {
	refused := apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)
	return refused && !isUntyped(err) && !isDenied(err)
}

// doing adds to an error what was done to which object.
func doing(what string, of Resource, o object, err error) error {
	return fmt.Errorf("%s %s: %w", what, of.key(o.GetNamespace(), o.GetName()), err)
}

// maxErrors is the number of errors of one sync that are reported.
const maxErrors = 5

// syncErrors are the errors of one sync. Only the first maxErrors are in the text, but the loop picks the retry from all.
type syncErrors struct{ errs []error }

func (e *syncErrors) Unwrap() []error { return e.errs }

func (e *syncErrors) Error() string {
	var text []string
	for _, err := range e.errs[:min(len(e.errs), maxErrors)] {
		text = append(text, err.Error())
	}
	if more := len(e.errs) - maxErrors; more > 0 {
		text = append(text, fmt.Sprintf("and %d more errors", more))
	}
	return strings.Join(text, "\n")
}

// join returns the errors as one; nil if all are nil.
func join(errs []error) error {
	switch errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	default:
		return &syncErrors{errs}
	}
}
