// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testca"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// They run as long as the process.
		goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.Forever"),
	)
}

// served is a server that serves, and clients of it.
type served struct {
	*kube
	front   *testca.CA
	address string
	stop    context.CancelFunc
	ended   chan error
	logger  klog.Logger
	// opening is called when the port is opened.
	opening func()
}

// prepare returns a kube and a config for it, which serves Llamas from memory on a free port.
func prepare(t *testing.T, flags ...string) (*served, *Config) {
	t.Helper()
	s := &served{front: testca.New(t, "front"), ended: make(chan error, 1)}
	s.logger = ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	s.kube = newKube(t, s.front)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x"}}],
		"clusters":[{"name":"x","cluster":{"server":%q}}]}`, s.kube.server.URL)
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	wanted := NewOptions()
	groups := wanted.Flags()
	flags = append([]string{"--kubeconfig=" + kubeconfig, "--llama-storage=memory", "--secure-port=0", "--bind-address=127.0.0.1", "--shutdown-delay-duration=0s"}, flags...)
	for _, flag := range flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		for _, group := range groups.FlagSets {
			if group.Lookup(name) != nil {
				if err := group.Set(name, value); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := wanted.Validate(); err != nil {
		t.Fatal(err)
	}
	config, err := wanted.Config("test")
	if err != nil {
		t.Fatal(err)
	}
	return s, config
}

// start a server as the flags say, and wait until it serves.
func start(t *testing.T, flags ...string) *served {
	t.Helper()
	s, config := prepare(t, flags...)
	s.run(t, config)
	return s
}

func (s *served) run(t *testing.T, config *Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), s.logger))
	s.stop = cancel
	listening := make(chan string, 1)
	config.listen = func(ctx context.Context, serving *options.SecureServingOptions) (net.Listener, error) {
		listener, err := listen(ctx, serving)
		if s.opening != nil {
			s.opening()
		}
		if err == nil {
			listening <- listener.Addr().String()
		}
		return listener, err
	}
	go func() { s.ended <- Run(ctx, config) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-s.ended:
		case <-time.After(3 * time.Minute):
			t.Error("the server does not end")
		}
	})
	select {
	case s.address = <-listening:
	case err := <-s.ended:
		s.ended <- err
		t.Fatalf("the server ended: %v", err)
	case <-time.After(3 * time.Minute):
		t.Fatal("the server does not start")
	}
}

// as returns a client that is the front proxy, and speaks for a user.
func (s *served) as(t *testing.T, user string) *client {
	return s.client(t, &s.front.Issue(t, "front-proxy").TLS, http.Header{"X-Remote-User": {user}})
}

// client of the server.
type client struct {
	http   *http.Client
	base   string
	header http.Header
}

func (s *served) client(t *testing.T, pair *tls.Certificate, header http.Header) *client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	if pair != nil {
		// Also if the server has not said that it would take it.
		transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{http: &http.Client{Transport: transport, Timeout: patience.Limit}, base: "https://" + s.address, header: header}
}

// response is what the tests look at.
type response struct {
	code   int
	header http.Header
	body   []byte
	object map[string]any
}

// do sends one request. Headers are name and value in turn.
func (c *client) do(t *testing.T, method, path, body string, headers ...string) response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.base+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = c.header.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := c.http.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	r := response{code: answer.StatusCode, header: answer.Header, body: content}
	_ = json.Unmarshal(content, &r.object)
	return r
}

// expect is do, and fails the test unless the answer has this code.
func (c *client) expect(t *testing.T, code int, method, path, body string, headers ...string) response {
	t.Helper()
	r := c.do(t, method, path, body, headers...)
	if r.code != code {
		t.Fatalf("%s %s answers %d, not %d: %s", method, path, r.code, code, r.body)
	}
	return r
}

// until asks again and again, as a probe does, and fails the test when the answer does not get this code.
func (c *client) until(t *testing.T, code int, path string) response {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		r := c.do(t, "GET", path, "")
		if r.code == code {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("GET %s still answers %d: %s", path, r.code, r.body)
		}
	}
}

func splitLines(text []byte) []string { return strings.Split(string(text), "\n") }
