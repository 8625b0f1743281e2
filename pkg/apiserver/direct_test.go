// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// An anonymous client that connects directly learns whether the server is well, and nothing else. It costs kube-apiserver no request.
func TestAnonymousDirectClients(t *testing.T) {
	s := start(t)
	anonymous := s.client(t, nil, nil)
	anonymous.until(t, 200, "/readyz")
	for _, path := range []string{"/livez", "/healthz", "/readyz"} {
		anonymous.expect(t, 200, "GET", path, "")
	}
	for _, path := range []string{llamas, "/apis", "/version", "/openapi/v2", "/metrics", "/livez/ping"} {
		anonymous.expect(t, 401, "GET", path, "")
	}
	if reviews := s.reviews(); len(reviews) > 0 {
		t.Errorf("reviewed: %q", reviews)
	}
	// kube-apiserver decides what anonymous clients may do.
	s.as(t, "system:anonymous").expect(t, 403, "GET", llamas, "")
	if reviews := s.reviews(); !slices.Contains(reviews, "system:anonymous list llamas") {
		t.Errorf("reviewed: %q", reviews)
	}
}

// A path that needs no authorization needs no authentication either.
func TestPathsThatAreAlwaysAllowed(t *testing.T) {
	anonymous := start(t, "--authorization-always-allow-paths=/metrics").client(t, nil, nil)
	anonymous.expect(t, 200, "GET", "/metrics", "")
	anonymous.expect(t, 401, "GET", "/readyz", "")
}

// Clients that fail cost few reviews. Those that kube-apiserver passes on, probes and clients that are allowed are not limited with them.
func TestFailuresOfDirectClients(t *testing.T) {
	for name, header := range map[string]func(i int) http.Header{
		"forged tokens": func(i int) http.Header { return http.Header{"Authorization": {fmt.Sprintf("Bearer forged-%d", i)}} },
		"no rights":     func(int) http.Header { return http.Header{"Authorization": {"Bearer good"}} },
		"no token":      func(int) http.Header { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.forbid("token-user")
			refused := map[int]int{}
			client := s.client(t, nil, nil)
			client.until(t, 200, "/readyz")
			for i := range 10 * maxFailures {
				client.header = header(i)
				answer := client.do(t, "GET", fmt.Sprintf("/apis/farm.example.com/v1alpha/namespaces/n%d/llamas", i), "")
				if refused[answer.code]++; answer.code == 429 && answer.header.Get("Retry-After") != "1" {
					t.Fatalf("429 with Retry-After %q", answer.header.Get("Retry-After"))
				}
			}
			if refused[200] > 0 || refused[429] < 5*maxFailures || refused[401]+refused[403] < maxFailures {
				t.Errorf("answers: %v, want %d times 401 or 403, then mostly 429", refused, maxFailures)
			}
			if asked := len(s.reviews()) + s.tokenReviews(); asked > 5*maxFailures {
				t.Errorf("%d requests cost kube-apiserver %d reviews", 10*maxFailures, asked)
			}
			client.header = nil
			for range maxFailures {
				client.expect(t, 200, "GET", "/readyz", "")
			}
			s.as(t, "farmer").expect(t, 200, "GET", llamas, "")
		})
	}
	s := start(t)
	client := s.client(t, nil, http.Header{"Authorization": {"Bearer good"}})
	for range 3 * maxFailures {
		client.expect(t, 200, "GET", llamas, "")
	}
}

// The access reviews of clients that connect directly do not delay those of requests that kube-apiserver passes on: each have their own authorizer.
func TestAuthorizerOfARequest(t *testing.T) {
	decides := func(decision authorizer.Decision) authorizer.Authorizer {
		return authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return decision, "", nil
		})
	}
	for _, test := range []struct {
		direct        bool
		own, passedOn authorizer.Decision
		want          authorizer.Decision
		succeeds      bool
	}{
		{direct: true, own: authorizer.DecisionAllow, passedOn: authorizer.DecisionDeny, want: authorizer.DecisionAllow, succeeds: true},
		{direct: true, own: authorizer.DecisionNoOpinion, passedOn: authorizer.DecisionAllow, want: authorizer.DecisionNoOpinion},
		{direct: false, own: authorizer.DecisionDeny, passedOn: authorizer.DecisionAllow, want: authorizer.DecisionAllow},
	} {
		succeeded := false
		ctx := context.WithValue(t.Context(), peerKey{}, &peer{direct: func() bool { return test.direct }})
		ctx = context.WithValue(ctx, succeededKey{}, func() { succeeded = true })
		decision, _, err := (&direct{}).authorizer(decides(test.own), decides(test.passedOn)).Authorize(ctx, authorizer.AttributesRecord{})
		if decision != test.want || err != nil || succeeded != test.succeeds {
			t.Errorf("%+v: got %v, %v, succeeded %t", test, decision, err, succeeded)
		}
	}
}

// The oldest connections of an address that has too many are closed, but not those of kube-apiserver.
func TestConnectionsOfAnAddress(t *testing.T) {
	s := start(t)
	s.as(t, "farmer").until(t, 200, "/livez")
	proxy, oldest := s.raw(t), s.rawWith(t)
	await[*http2.SettingsFrame](t, proxy)
	for range maxConnections {
		// It sends no request: the server ends the connection of an anonymous client after its first answer.
		await[*http2.SettingsFrame](t, s.rawWith(t))
	}
	for {
		frame, err := oldest.ReadFrame()
		if _, idle := frame.(*http2.GoAwayFrame); idle {
			t.Fatal("the oldest connection is still served, and ends for another reason")
		}
		if err != nil {
			if !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "reset") {
				t.Errorf("the oldest connection: %v, want it closed", err)
			}
			break
		}
	}
	proxy.get(t, 1, "/livez")
	awaitStatus(t, proxy, "200")
}
