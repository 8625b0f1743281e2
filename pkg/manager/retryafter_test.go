// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net/http"
	"strings"
	"testing"
)

// TestLongPausesAreShortened: a load balancer asks all clients to come back in ten minutes.
func TestLongPausesAreShortened(t *testing.T) {
	for asked, want := range map[string]string{"": "", "3": "3", "600": "10", "99999999999": "10", "-1": "-1", "Fri, 27 Nov 2026 23:00:00 GMT": "Fri, 27 Nov 2026 23:00:00 GMT"} {
		var header []string
		if asked != "" {
			header = []string{retryAfterHeader, asked}
		}
		server := &answers{t: t, left: []func() (*http.Response, error){answer(503, strings.NewReader(""), header...)}}
		resp, err := (&retryAfterCap{server}).RoundTrip(request(t, t.Context(), http.MethodPut, "/api/v1/pods"))
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get(retryAfterHeader); got != want {
			t.Errorf("%q became %q, want %q", asked, got, want)
		}
	}
}
