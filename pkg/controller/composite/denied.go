// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
)

// problemOf is what the author of the controller, or who installed the engine, can do about a failed sync; nil if nothing.
func problemOf(err error) *problem {
	if denied, ok := errors.AsType[*deniedError](err); ok {
		return forbidden(denied.of, denied.verb)
	}
	if _, ok := errors.AsType[*tooLargeError](err); ok {
		return &problem{v1alpha1.ReasonTooLarge, err.Error()}
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return &problem{string(refused.reason), controller.WithoutPorts(controller.Truncate(err.Error(), maxMessage))}
	}
	return hookProblem(err)
}

// deniedError is that the engine lacks a right.
type deniedError struct {
	of   resource
	verb string
	err  error
}

func (e *deniedError) Error() string { return e.err.Error() }
func (e *deniedError) Unwrap() error { return e.err }

// finalizersDenied is what admission says where children of a parent may not keep it from being deleted before them.
const finalizersDenied = "refers to a resource you can't set finalizers on"

// isDenied tells that an account may not do something at all, as opposed to admission that refuses one object.
func isDenied(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && !controller.IsOwnerUnknown(err)
}

// denied marks an error that tells of a missing right.
func (s *parentSync) denied(of resource, verb string, err error) error {
	if !isDenied(err) {
		return err
	}
	if strings.Contains(err.Error(), finalizersDenied) {
		of, verb = s.h.rules.parent, "update"
		of.Resource += "/finalizers"
	}
	return &deniedError{of, verb, err}
}

// doing says in an error what was being done to which object.
func doing(what string, of resource, o object, err error) error {
	return fmt.Errorf("%s %s: %w", what, of.key(o.GetNamespace(), o.GetName()), err)
}
