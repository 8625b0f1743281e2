// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"millwright.dev/pkg/testing/testca"
)

// tlsServer serves with a certificate of the one authority to clients of the other, and answers with its protocol and the
// names of its clients.
func tlsServer(t *testing.T, server, clients *testca.CA) (url string, connections *atomic.Int32) {
	connections = &atomic.Int32{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"status":{"proto":%q,"client":%q}}`, r.Proto, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{server.Issue(t, "hook").TLS}, ClientCAs: clients.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { connections.Add(1); return nil, nil }}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, connections
}

func TestMutualTLS(t *testing.T) {
	ca, other := testca.New(t, "ca"), testca.New(t, "other")
	pair := ca.Issue(t, "engine-1")
	source := fakeSource{
		secrets:    map[string]map[string][]byte{"ns/client": {"tls.crt": pair.Cert, "tls.key": pair.Key}},
		configMaps: map[string]map[string]string{"ns/roots": {"ca.crt": string(ca.PEM)}},
	}
	url, connections := tlsServer(t, ca, ca)
	hook := newTestHook(t, Config{URL: url, Source: source, Access: Access{
		CABundle: &CABundle{ConfigMapRef: &KeyRef{Namespace: "ns", Name: "roots"}}, ClientTLS: &ClientTLS{Namespace: "ns", Name: "client"}}})
	answered := func() string {
		t.Helper()
		answer, err := hook.Call(t.Context(), "uid", emptyRequest())
		if err != nil {
			t.Fatal(err)
		}
		return string(answer.Body)
	}
	for range 3 {
		if got, want := answered(), `{"status":{"proto":"HTTP/2.0","client":"engine-1"}}`; got != want {
			t.Errorf("hook saw %s, want %s", got, want)
		}
	}
	if connections.Load() != 1 {
		t.Errorf("%d connections for three calls, want 1", connections.Load())
	}
	pair = ca.Issue(t, "engine-2")
	source.secrets["ns/client"] = map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key}
	if got, want := answered(), `{"status":{"proto":"HTTP/2.0","client":"engine-2"}}`; got != want {
		t.Errorf("after the rotation the hook saw %s, want %s", got, want)
	}
	if n := len(hook.client.transports.known); n != 1 {
		t.Errorf("%d transports after the rotation, want 1", n)
	}
	source.configMaps["ns/roots"] = map[string]string{"ca.crt": string(other.PEM)}
	wantReason(t, call(t, hook), ReasonUnreachable, "certificate signed by unknown authority")
	delete(source.secrets, "ns/client")
	wantReason(t, call(t, hook), ReasonCredentials, "can't get clientTLS secret ns/client: not found")
	source.secrets["ns/client"] = map[string][]byte{"tls.crt": pair.Cert, "tls.key": []byte("no key")}
	wantReason(t, call(t, hook), ReasonCredentials, "can't parse clientTLS certificate")
}

func TestHookRefusesCallsWithoutClientCertificate(t *testing.T) {
	ca, other := testca.New(t, "ca"), testca.New(t, "other")
	url, _ := tlsServer(t, ca, other)
	inline := string(ca.PEM)
	hook := newTestHook(t, Config{URL: url, Access: Access{CABundle: &CABundle{Inline: &inline}}})
	wantReason(t, call(t, hook), ReasonUnreachable, "http error: ")
}

func TestTheBundleReplacesTheRootsOfTheSystem(t *testing.T) {
	ca := testca.New(t, "ca")
	config, err := material{ca: ca.PEM}.tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	if !config.RootCAs.Equal(ca.Pool()) || config.MinVersion != tls.VersionTLS12 {
		t.Errorf("other roots are trusted too, or TLS is older than 1.2: %+v", config)
	}
	if config, err = (material{}).tlsConfig(); err != nil || config.RootCAs != nil {
		t.Errorf("without a bundle the roots are %v, want the system's; error %v", config.RootCAs, err)
	}
}

// rotatingSource has another token every time.
type rotatingSource struct {
	fakeSource
	pairs []*testca.KeyPair
	asked atomic.Int64
}

func (s *rotatingSource) Secret(string, string) (map[string][]byte, error) {
	pair := s.pairs[int(s.asked.Add(1)/5)%len(s.pairs)]
	return map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key}, nil
}

func TestConcurrentCallsDuringRotation(t *testing.T) {
	ca := testca.New(t, "ca")
	source := &rotatingSource{}
	for i := range 3 {
		source.pairs = append(source.pairs, ca.Issue(t, fmt.Sprint("engine-", i)))
	}
	url, _ := tlsServer(t, ca, ca)
	inline := string(ca.PEM)
	client := NewClient(Options{PerHost: 8, WaitingPerHost: 100})
	hook, err := client.NewHook(testContext(t), Config{URL: url, Source: source, Access: Access{CABundle: &CABundle{Inline: &inline}, ClientTLS: &ClientTLS{}}})
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	for i := range 20 {
		callers.Go(func() {
			for range 10 {
				if err := call(t, hook); err != nil && ReasonOf(err) != ReasonInvalidConfiguration {
					t.Error(err)
				}
			}
			if i == 0 {
				hook.Close()
			}
		})
	}
	callers.Wait()
	if len(client.transports.known) != 0 || len(client.hosts.known) != 0 {
		t.Errorf("left are %d transports and %d hosts", len(client.transports.known), len(client.hosts.known))
	}
}
