// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"

	"millwright.dev/pkg/addresslimit"
	"millwright.dev/pkg/inflight"
	"millwright.dev/pkg/testing/testca"
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

// A request to a path that is open to all costs kube-apiserver no review, whatever it sends, and no more than a probe.
func TestRequestsToOpenPaths(t *testing.T) {
	s := start(t)
	client := s.client(t, nil, nil)
	client.until(t, 200, "/readyz")
	token := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("forged"))
	for _, headers := range [][]string{
		{"Authorization", "Bearer forged"}, {"Authorization", "Bearer good"}, {"Sec-Websocket-Protocol", token + ", v4.channel.k8s.io"},
		{"Impersonate-User", "farmer"}, {"Authorization", "Bearer good", "Impersonate-User", "farmer", "Impersonate-Group", "system:masters"},
		{"X-Remote-User", "farmer"},
	} {
		client.expect(t, 200, "GET", "/readyz", "", headers...)
		client.expect(t, 200, "HEAD", "/livez", "", headers...)
	}
	if reviews := len(s.reviews()) + s.tokenReviews(); reviews > 0 {
		t.Errorf("got %d TokenReviews and the access reviews %q, want none", s.tokenReviews(), s.reviews())
	}
	unknown := testca.New(t, "unknown").Issue(t, "client").TLS
	s.client(t, &unknown, nil).expect(t, 200, "GET", "/livez", "")
	if answer := client.expect(t, 405, "POST", "/readyz", "{}"); answer.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("headers: got %v, want Allow: GET, HEAD", answer.header)
	}
	client.expect(t, 414, "GET", "/readyz?exclude="+strings.Repeat("x", maxOpenQuery), "")
	if body := client.expect(t, 200, "GET", "/readyz?verbose&exclude=llama-storage", "").body; !strings.Contains(string(body), "[+]llama-storage excluded: ok") {
		t.Errorf("got the answer %s, want that of a probe", body)
	}
}

// Few requests to open paths are in the generic server at a time, so that those of kube-apiserver have their places. The others wait.
func TestOpenRequestsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 3 * maxOpenRequests
		d, release := &directClients{openRequests: make(chan struct{}, maxOpenRequests)}, make(chan struct{})
		var served atomic.Int32
		var clients sync.WaitGroup
		ask := func(ctx context.Context) {
			clients.Go(func() {
				d.answerOpen(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					served.Add(1)
					<-release
				}), httptest.NewRequestWithContext(ctx, http.MethodGet, "/livez", nil))
			})
		}
		for range requests {
			ask(t.Context())
		}
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		ask(gone)
		synctest.Wait()
		leave()
		if n := served.Load(); n != maxOpenRequests {
			t.Errorf("got %d requests at a time, want %d", n, maxOpenRequests)
		}
		close(release)
		clients.Wait()
		if n := served.Load(); n != requests {
			t.Errorf("got %d requests served, want %d", n, requests)
		}
	})
}

// kube-apiserver may connect before its authority is known here. Its requests are served, and it is asked to connect again.
func TestFrontProxiesThatWereUnknown(t *testing.T) {
	direct := &directClients{
		proxies: &frontProxies{verifier: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, true, nil })},
		open:    authorizerfactory.NewAlwaysDenyAuthorizer(), requests: inflight.NewLimit[netip.Addr](1, 1), failures: addresslimit.NewFailures(2, time.Second),
	}
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "https://farm"+llamas, nil)
	direct.handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(answer, request)
	if got := answer.Header().Get("Connection"); answer.Code != http.StatusOK || got != "close" {
		t.Errorf("got %d with Connection %q, want 200 with close", answer.Code, got)
	}
}

// A path that needs no authorization needs no authentication either.
func TestPathsThatAreAlwaysAllowed(t *testing.T) {
	anonymous := start(t, "--authorization-always-allow-paths=/metrics").client(t, nil, nil)
	anonymous.expect(t, 200, "GET", "/metrics", "")
	anonymous.expect(t, 401, "GET", "/readyz", "")
}

// A pattern of paths that are open to all opens no resources, and takes the name of no client that asks for them.
func TestPatternsThatAreAlwaysAllowed(t *testing.T) {
	s := start(t, "--authorization-always-allow-paths=/apis/*")
	anonymous := s.client(t, nil, nil)
	anonymous.expect(t, 200, "GET", "/apis/farm.example.com", "")
	anonymous.expect(t, 401, "GET", llamas, "")
	s.client(t, nil, http.Header{"Authorization": {"Bearer good"}}).expect(t, 200, "GET", llamas, "")
	if reviews := s.reviews(); !slices.Equal(reviews, []string{"token-user list llamas"}) {
		t.Errorf("reviewed: %q", reviews)
	}
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
		direct         bool
		verb           string
		own, passedOn  authorizer.Decision
		want           authorizer.Decision
		succeeds, ends bool
	}{
		{direct: true, verb: "get", own: authorizer.DecisionAllow, want: authorizer.DecisionAllow, succeeds: true},
		{direct: true, verb: "watch", own: authorizer.DecisionAllow, want: authorizer.DecisionAllow, succeeds: true, ends: true},
		{direct: true, verb: "watch", own: authorizer.DecisionNoOpinion, passedOn: authorizer.DecisionAllow, want: authorizer.DecisionNoOpinion},
		{direct: false, verb: "watch", own: authorizer.DecisionDeny, passedOn: authorizer.DecisionAllow, want: authorizer.DecisionAllow},
	} {
		succeeded, ended, ctx := false, false, t.Context()
		if test.direct {
			ctx = context.WithValue(ctx, directKey{}, &directRequest{succeeded: func() { succeeded = true }, end: func() { ended = true }})
		}
		combined := (&directClients{}).authorizer(decides(test.own), decides(test.passedOn))
		ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Verb: test.verb})
		decision, _, err := combined.Authorize(ctx, authorizer.AttributesRecord{})
		if decision != test.want || err != nil || succeeded != test.succeeds || ended != test.ends {
			t.Errorf("%+v: got %v, %v, succeeded %t, ended %t", test, decision, err, succeeded, ended)
		}
	}
}

// Older connections of an address that has too many are closed, but not those of kube-apiserver.
func TestConnectionsOfAnAddress(t *testing.T) {
	s := start(t)
	s.as(t, "farmer").until(t, 200, "/livez")
	proxy, oldest := s.raw(t), s.rawWith(t)
	await[*http2.SettingsFrame](t, proxy)
	for range connectionLimits.OfAddress {
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
