// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestFailureLimit(t *testing.T) {
	l, now := newFailureLimit(), time.Now()
	attacker, other := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	reviewed := func(address netip.Prefix, requests int, fails bool) (n int) {
		for range requests {
			succeeded, ok := l.begin(address, now)
			if ok {
				n++
			}
			if ok && !fails {
				succeeded()
			}
		}
		return n
	}
	if n := reviewed(attacker, 500, true); n != maxFailures {
		t.Errorf("%d of 500 requests are reviewed, want %d", n, maxFailures)
	}
	if n := reviewed(other, 500, false); n != 500 {
		t.Errorf("%d of 500 requests of another address are reviewed, want all", n)
	}
	now = now.Add(3 * failureInterval)
	if n := reviewed(attacker, 500, true); n != 3 {
		t.Errorf("%d of 500 requests are reviewed after three intervals, want 3", n)
	}
	now = now.Add(time.Hour)
	if n := reviewed(attacker, 500, true); n != maxFailures {
		t.Errorf("%d of 500 requests are reviewed after an hour, want %d", n, maxFailures)
	}
}

func TestAddressOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:1234": "192.0.2.1/32", "[::ffff:192.0.2.1]:1234": "192.0.2.1/32",
		"[2001:db8::1:2:3:4]:1": "2001:db8::/64", "[fe80::1%eth0]:1": "fe80::/64", "": "invalid Prefix", "@": "invalid Prefix",
	} {
		if got := addressOf(&http.Request{RemoteAddr: address}).String(); got != want {
			t.Errorf("address of %q: got %s, want %s", address, got, want)
		}
	}
}

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
