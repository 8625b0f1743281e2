// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2/ktesting"
)

// reviewer is an API server that knows tokens by the name of their user, and lets prometheus get /metrics. Authenticators use the
// REST client, which fake clientsets do not have.
func reviewer(t *testing.T) kubernetes.Interface {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, req *http.Request) {
		var review authenticationv1.TokenReview
		decode(t, req, &review)
		if token := review.Spec.Token; token != "forged" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: token}}
		}
		respond(t, w, http.StatusCreated, review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, req *http.Request) {
		var review authorizationv1.SubjectAccessReview
		decode(t, req, &review)
		if review.Spec.User == "unlucky" {
			respond(t, w, http.StatusBadRequest, metav1.Status{Status: metav1.StatusFailure, Message: "not today", Code: http.StatusBadRequest})
			return
		}
		asked := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "prometheus" && asked != nil && *asked == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
		respond(t, w, http.StatusCreated, review)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func decode(t *testing.T, req *http.Request, into any) {
	t.Helper()
	if err := json.NewDecoder(req.Body).Decode(into); err != nil {
		t.Error(err)
	}
}

func respond(t *testing.T, w http.ResponseWriter, code int, object any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		t.Error(err)
	}
}

// serveSecurely serves until the test ends, and returns the address.
func serveSecurely(t *testing.T, options SecureMetrics) string {
	t.Helper()
	options.Address = "127.0.0.1:0"
	_, ctx := ktesting.NewTestContext(t)
	serving, err := newMetricsServing(ctx, options, func() (kubernetes.Interface, error) { return reviewer(t), nil },
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metrics") }))
	if err != nil {
		t.Fatal(err)
	}
	serving.start(ctx, func(err error) { t.Error(err) })
	t.Cleanup(func() { serving.stop(context.WithoutCancel(ctx)) })
	return serving.server.listener.Addr().String()
}

// scraper trusts whatever certificate it is shown.
func scraper(t *testing.T) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestMetricsRequireRights(t *testing.T) {
	address := serveSecurely(t, SecureMetrics{})
	client := scraper(t)
	for name, tc := range map[string]struct {
		token, method, path string
		code                int
		body                string
	}{
		"who may":                        {"prometheus", "GET", "/metrics", 200, "metrics"},
		"who may get may not post":       {"prometheus", "POST", "/metrics", 403, "prometheus may not post the nonResourceURL /metrics"},
		"who may, elsewhere":             {"prometheus", "GET", "/debug/pprof", 403, "Forbidden"},
		"who may not":                    {"someone", "GET", "/metrics", 403, "someone may not get the nonResourceURL /metrics"},
		"without a token":                {"", "GET", "/metrics", 401, "Authorization: Bearer"},
		"a forged token":                 {"forged", "GET", "/metrics", 401, "Unauthorized"},
		"unknown, without an API server": {"unlucky", "GET", "/metrics", 500, "did not answer whether"},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), tc.method, "https://"+address+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tc.token != "" {
				request.Header.Set("Authorization", "Bearer "+tc.token)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != tc.code || !strings.Contains(string(body), tc.body) {
				t.Errorf("%d %s\nwant %d %s", response.StatusCode, body, tc.code, tc.body)
			}
		})
	}
}

// writePair writes a new self-signed certificate and its key in one step for each, as a mounted Secret changes.
func writePair(t *testing.T, options SecureMetrics, host string) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{options.KeyFile: key, options.CertFile: certificate} {
		write(t, path+".new", content)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

// shownName is the first name in the certificate that a client is shown.
func shownName(t *testing.T, address string) string {
	t.Helper()
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	return connection.ConnectionState().PeerCertificates[0].DNSNames[0]
}

func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	options := SecureMetrics{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	writePair(t, options, "old.example.com")
	address := serveSecurely(t, options)
	if got := shownName(t, address); got != "old.example.com" {
		t.Fatalf("the certificate is of %s", got)
	}
	writePair(t, options, "new.example.com")
	for shownName(t, address) != "new.example.com" { // the test's own timeout bounds it
		time.Sleep(10 * time.Millisecond)
	}
}

func TestWithoutFilesTheCertificateIsOfThisHost(t *testing.T) {
	address := serveSecurely(t, SecureMetrics{})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := shownName(t, address); got != host {
		t.Errorf("the certificate is of %s, want %s", got, host)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMismatchedKeyNamesItsFlags(t *testing.T) {
	dir := t.TempDir()
	options := SecureMetrics{Address: "127.0.0.1:0", CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	client := func() (kubernetes.Interface, error) { return reviewer(t), nil }
	for name, prepare := range map[string]func(){
		"no file": func() {},
		"no key": func() {
			writePair(t, options, "a")
			write(t, options.KeyFile, nil)
		},
		"the key of another": func() {
			writePair(t, options, "a")
			certificate, err := os.ReadFile(options.CertFile)
			if err != nil {
				t.Fatal(err)
			}
			writePair(t, options, "b")
			write(t, options.CertFile, certificate)
		},
	} {
		t.Run(name, func(t *testing.T) {
			prepare()
			_, err := newMetricsServing(t.Context(), options, client, http.NotFoundHandler())
			if err == nil || !strings.Contains(err.Error(), "--metrics-tls-cert-file") {
				t.Errorf("got %v", err)
			}
		})
	}
}
