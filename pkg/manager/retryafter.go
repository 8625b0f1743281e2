// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net/http"
	"strconv"
)

// maxRetryAfter is the longest pause that an answer may ask for, in seconds. A load balancer in front of the API server may ask for ten minutes where
// seconds are enough; client-go would wait for that long, within one request.
const maxRetryAfter = 10

// retryAfterHeader is a number of seconds, or a date, which client-go does not read (RFC 9110, section 10.2.3).
const retryAfterHeader = "Retry-After"

// retryAfterCap shortens the pauses that answers ask for.
type retryAfterCap struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c *retryAfterCap) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(req)
	if err == nil && retryAfter(resp) > maxRetryAfter {
		resp.Header.Set(retryAfterHeader, strconv.Itoa(maxRetryAfter))
	}
	return resp, err
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (c *retryAfterCap) WrappedRoundTripper() http.RoundTripper { return c.next }

// retryAfter returns the pause that an answer asks for, in seconds, 0 for none. It reads what client-go reads.
func retryAfter(resp *http.Response) int {
	seconds, err := strconv.Atoi(resp.Header.Get(retryAfterHeader))
	if err != nil {
		return 0
	}
	return seconds
}
