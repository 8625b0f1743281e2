// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
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

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }
