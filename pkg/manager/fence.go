// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"net/http"
)

// fence refuses requests that write while this process may not be the leader. It covers the time in which a process does not know
// that it has lost the Lease: it was suspended, or got no CPU, and continues in the middle of a sync.
//
// A request that has already passed can still reach the API server late. No client can prevent that; controllers do, with
// preconditions on their writes.
type fence struct {
	next     http.RoundTripper
	mayWrite func() error
}

// RoundTrip implements http.RoundTripper.
func (f *fence) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return f.next.RoundTrip(req)
	}
	if err := f.mayWrite(); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as http.RoundTripper demands, also when nothing was sent
		}
		return nil, fmt.Errorf("not sent: %w", err)
	}
	return f.next.RoundTrip(req)
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (f *fence) WrappedRoundTripper() http.RoundTripper { return f.next }
