// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestSeverity(t *testing.T) {
	failure, outage := errors.New("unknown step"), apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	permanent := Permanent(errors.New("image is required"))
	for name, tc := range map[string]struct {
		errs []error // joined in any order
		want severity
	}{
		"conflict":                     {[]error{staleConflict()}, severityConflict},
		"field manager conflict":       {[]error{fieldManagerConflict()}, severityFailure},
		"permanent conflict":           {[]error{Permanent(staleConflict())}, severityPermanent},
		"wrapped permanent":            {[]error{fmt.Errorf("creating: %w", permanent)}, severityPermanent},
		"permanent of several":         {[]error{Permanent(errors.Join(outage, failure))}, severityPermanent},
		"outage":                       {[]error{outage}, severityOutage},
		"unknown owner":                {[]error{ownerUnknown()}, severityOwnerUnknown},
		"panic":                        {[]error{&panicError{value: staleConflict()}}, severityPanic},
		"conflict and failure":         {[]error{staleConflict(), failure}, severityFailure},
		"conflict and outage":          {[]error{staleConflict(), outage}, severityOutage},
		"conflict and permanent":       {[]error{staleConflict(), permanent}, severityConflict},
		"failure and permanent":        {[]error{failure, permanent}, severityFailure},
		"outage, unknown owner, fault": {[]error{outage, ownerUnknown(), failure}, severityFailure},
		"unknown owner and outage":     {[]error{ownerUnknown(), outage}, severityOutage},
		"postponed":                    {[]error{ErrPostponed}, severityPostponed},
		"postponed and permanent":      {[]error{ErrPostponed, permanent}, severityPermanent},
		"postponed and conflict":       {[]error{ErrPostponed, staleConflict()}, severityConflict},
		"panic and failure":            {[]error{&panicError{value: "x"}, failure}, severityPanic},
		"two conflicts":                {[]error{staleConflict(), staleConflict()}, severityConflict},
	} {
		t.Run(name, func(t *testing.T) {
			reversed := slices.Clone(tc.errs)
			slices.Reverse(reversed)
			for _, errs := range [][]error{tc.errs, reversed} {
				joined := errors.Join(errs...)
				for _, err := range []error{joined, fmt.Errorf("syncing: %w", joined), errors.Join(nil, joined)} {
					if got := severityOf(err); got != tc.want {
						t.Errorf("severity of %q is %d, want %d", err, got, tc.want)
					}
					if got, want := IsRetriedQuietly(err), tc.want == severityConflict || tc.want == severityOwnerUnknown; got != want {
						t.Errorf("retried quietly: %t, want %t", got, want)
					}
				}
			}
		})
	}
}
