// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/hook"
)

// refusedError is that the API server does not accept an object as the hook desires it. The hook has to be mended, or a definition or a
// policy that the object breaks.
type refusedError struct {
	reason hook.Reason
	err    error
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// refused marks an error that says that an object is not valid. Any other error is returned as it is.
func refused(reason hook.Reason, err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Status().Code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return &refusedError{reason, err}
	}
	return err
}
