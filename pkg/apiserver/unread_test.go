// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"millwright.dev/pkg/testing/testca"
)

// rawUnread connects, and allows the server to send no byte of an answer.
func (s *served) rawUnread(t *testing.T) *raw {
	t.Helper()
	client := s.rawWith(t)
	if err := client.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	return client
}

// unread sends requests for a path on one connection, and reads none of the answers but their headers.
func (s *served) unread(t *testing.T, requests int, path string, headers ...hpack.HeaderField) *raw {
	t.Helper()
	client := s.rawUnread(t)
	for i := range requests {
		client.get(t, uint32(2*i+1), path, headers...)
	}
	for range requests {
		awaitStatus(t, client, "200")
	}
	return client
}

// Clients that read no answers of a path that is open to all occupy no place of another request.
func TestUnreadAnswersOfOpenPaths(t *testing.T) {
	s := start(t, "--max-requests-inflight=3")
	anonymous := s.client(t, nil, nil)
	anonymous.until(t, 200, "/readyz")
	// Each byte is quoted by four: the answer is more than the 4 KiB that HTTP/2 buffers.
	path := "/readyz?verbose&exclude=" + strings.Repeat("\xff", maxOpenQuery-len("verbose&exclude="))
	if size := len(anonymous.expect(t, 200, "GET", path, "").body); size <= 4<<10 || size > maxOpenAnswer {
		t.Fatalf("the answer has %d bytes, and must be more than HTTP/2 buffers, and no large one", size)
	}
	for range maxRequestsOfAddress + 1 {
		s.unread(t, 1, path) // the server ends the connection of an anonymous client after its first answer
	}
	s.as(t, "farmer").expect(t, 200, "GET", llamas, "")
	anonymous.expect(t, 200, "GET", "/livez", "")
	s.client(t, nil, http.Header{"Authorization": {"Bearer good"}}).expect(t, 200, "GET", llamas, "")
}

// A client that does not read its answers has few at a time, and others go on.
func TestUnreadAnswers(t *testing.T) {
	s := start(t, "--max-requests-inflight=20")
	known := s.client(t, nil, http.Header{"Authorization": {"Bearer good"}})
	known.expect(t, 200, "GET", "/openapi/v2", "")
	s.unread(t, maxRequestsOfAddress, "/openapi/v2", hpack.HeaderField{Name: "authorization", Value: "Bearer good"})
	if refused := known.expect(t, 429, "GET", llamas, ""); refused.header.Get("Retry-After") != "1" {
		t.Errorf("headers of a refusal: got %v, want Retry-After: 1", refused.header)
	}
	s.as(t, "farmer").expect(t, 200, "GET", llamas, "")
	s.client(t, nil, nil).expect(t, 200, "GET", "/livez", "")
}

// An answer that is not read ends after a time.
func TestUnreadAnswersEnd(t *testing.T) {
	s, config := prepare(t)
	config.directTimeout = time.Second
	s.run(t, config)
	attacker := s.rawUnread(t)
	attacker.get(t, 1, "/openapi/v2", hpack.HeaderField{Name: "authorization", Value: "Bearer good"})
	if reset := await[*http2.RSTStreamFrame](t, attacker); reset.ErrCode != http2.ErrCodeInternal {
		t.Errorf("an answer ends with %v, want %v", reset.ErrCode, http2.ErrCodeInternal)
	}
}

// Large answers of an open path count until they are read.
func TestLargeUnreadAnswersOfOpenPaths(t *testing.T) {
	s := start(t, "--authorization-always-allow-paths=/openapi/v2,/livez")
	anonymous := s.client(t, nil, nil)
	large := []string{"Accept-Encoding", "identity"}
	anonymous.expect(t, 200, "GET", "/openapi/v2", "", large...)
	for range maxRequestsOfAddress {
		s.unread(t, 1, "/openapi/v2")
	}
	anonymous.expect(t, 429, "GET", "/openapi/v2", "", large...)
	anonymous.expect(t, 200, "GET", "/livez", "")
	s.as(t, "farmer").expect(t, 200, "GET", "/openapi/v2", "")
}

// A connection whose client reads nothing is closed, unless it is that of kube-apiserver.
func TestUnreadConnections(t *testing.T) {
	pair := testca.New(t, "front").Issue(t, "farm")
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var failed atomic.Bool
			handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for {
					if _, err := w.Write(make([]byte, 1<<10)); err != nil {
						failed.Store(true)
						return
					}
				}
			})
			accepted := newHandedListener(&net.TCPAddr{})
			proxies := &frontProxies{verifier: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, known, nil })}
			f, err := newFront(t.Context(), &genericapiserver.SecureServingInfo{Listener: accepted}, &dynamicTLS{config: &tls.Config{
				Certificates: []tls.Certificate{pair.TLS}, NextProtos: []string{http2.NextProtoTLS}, SessionTicketsDisabled: true,
			}}, newMover(), proxies, proxyLimits(100).server(handler), directLimits(directTimeout).server(handler))
			if err != nil {
				t.Fatal(err)
			}
			f.start(func(err error) { t.Error(err) })
			defer f.stop()
			server, end := net.Pipe()
			defer end.Close()
			accepted.hand(server)
			client := newRaw(t, tls.Client(end, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http2.NextProtoTLS}}))
			await[*http2.SettingsFrame](t, client)
			client.get(t, 1, "/")
			time.Sleep(directTimeout - time.Second)
			if failed.Load() {
				t.Error("a connection is closed before its client has had time to read")
			}
			time.Sleep(10 * time.Second) // TLS waits five seconds for its last alert
			if failed.Load() == known {
				t.Errorf("the client is kube-apiserver: %t, and its connection is closed: %t", known, failed.Load())
			}
		})
	}
}

// A watch of a client that connects directly lasts longer than other requests, and does not count with them.
func TestWatchesOfDirectClients(t *testing.T) {
	for _, flag := range []string{"--disable-http2-serving=false", "--disable-http2-serving=true"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			s, config := prepare(t, flag)
			config.directTimeout = 5 * time.Second
			s.run(t, config)
			known := s.client(t, nil, http.Header{"Authorization": {"Bearer good"}})
			known.expect(t, 200, "GET", llamas, "")
			var watches []*stream
			for range maxRequestsOfAddress + 1 {
				watches = append(watches, known.watch(t, llamas+"?watch=1"))
			}
			time.Sleep(config.directTimeout + time.Second) // by the same clock as the timeout
			s.as(t, "farmer").expect(t, 201, "POST", llamas, body("dolly", dollySpec))
			for _, watch := range watches {
				if event := watch.next(t); event.Type != "ADDED" {
					t.Errorf("got the event %v, want ADDED", event)
				}
			}
		})
	}
}
