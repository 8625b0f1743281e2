// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

func TestReviewsAreLimited(t *testing.T) {
	config := &Config{clients: newRESTClients(&rest.Config{Host: "http://127.0.0.1:1", QPS: -1}, "test")}
	client, err := config.reviewClient()
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []rest.Interface{client.AuthenticationV1().RESTClient(), client.AuthorizationV1().RESTClient()} {
		if limiter := of.GetRateLimiter(); limiter == nil || limiter.QPS() != reviewQPS {
			t.Errorf("got rate limiter %v, want %d QPS", limiter, reviewQPS)
		}
	}
}

// A client that sends invalid tokens costs the API server few reviews, and does not delay clients of other addresses.
func TestInvalidTokensAreLimited(t *testing.T) {
	handler, err := delegated(reviewer(t), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err != nil {
		t.Fatal(err)
	}
	get := func(address, token string) int {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		req.RemoteAddr = address
		req.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, req)
		return answer.Code
	}
	codes := map[int]int{}
	for range 50 {
		codes[get("192.0.2.1:1", "forged")]++
	}
	refused, limited := codes[http.StatusUnauthorized], codes[http.StatusTooManyRequests]
	if refused < maxFailures || limited == 0 || refused+limited != 50 {
		t.Errorf("answers to invalid tokens: got %v, want %d times 401, then 429", codes, maxFailures)
	}
	for range 50 {
		if code := get("192.0.2.2:1", "prometheus"); code != http.StatusOK {
			t.Fatalf("answer to a valid token of another address: got %d, want 200", code)
		}
	}
}
