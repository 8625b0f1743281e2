// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/phase"
)

// client-go logs the URL that it sees outside of the wrappers of the config.
func TestCommandIsNotLogged(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		asked = req.URL.Query()["command"]
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	run := NewExecutor(phase.Environment{Client: client, RESTConfig: config})
	err = run(t.Context(), Container{"ns", "p", "c"}, []string{"psql", "--password=hunter2"}, io.Discard, io.Discard)
	if err == nil {
		t.Error("a server without streams has run it")
	}
	if diff := cmp.Diff([]string{"psql", "--password=hunter2"}, asked); diff != "" {
		t.Errorf("the command that was asked for (-want +got):\n%s", diff)
	}

	var seen string
	inner := withoutQueryInLogs(config)
	transport, err := rest.HTTPWrappersForConfig(inner, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	outer := roundTripper(func(req *http.Request) (*http.Response, error) {
		seen = req.URL.String()
		return transport.RoundTrip(req)
	})
	req, err := http.NewRequestWithContext(withQuery(context.Background(), "command=hunter2"), http.MethodPost, server.URL+"/exec", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := outer.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if seen != server.URL+"/exec" || asked[0] != "hunter2" {
		t.Errorf("outside %s is seen, and %q is asked", seen, asked)
	}
}

// A command may run for hours: its text is not held when its stream is open.
func TestQueryIsForgotten(t *testing.T) {
	for code, want := range map[int]string{http.StatusSwitchingProtocols: "", http.StatusServiceUnavailable: "command=sync"} {
		restorer := queryRestorer{roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.RawQuery != "command=sync" {
				t.Errorf("asked with query %q", req.URL.RawQuery)
			}
			return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(""))}, nil
		})}
		ctx := withQuery(t.Context(), "command=sync")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host/exec", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := restorer.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := ctx.Value(queryKey{}).(*query).text; got != want {
			t.Errorf("after %d the query is %q, want %q", code, got, want)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }
