// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2/ktesting"
)

func TestServing(t *testing.T) {
	server, err := listen(t.Context(), "--serving-address", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	recordVersion("v1.2.3")
	live := healthz.NamedCheck("live", func(*http.Request) error { return nil })
	waiting := healthz.NamedCheck("foo", func(*http.Request) error { return errors.New("waiting for caches: bar") })
	_, ctx := ktesting.NewTestContext(t)
	mux := healthHandler([]healthz.HealthChecker{live}, []healthz.HealthChecker{waiting})
	mux.Handle("/metrics", legacyregistry.Handler())
	server.start(ctx, "all", mux, nil, func(err error) { t.Error(err) })
	defer server.stop(t.Context())
	for _, tc := range []struct {
		path string
		code int
		body string
	}{
		{"/healthz", 200, "ok"},
		{"/livez?verbose", 200, "[+]live ok"},
		{"/livez/live", 200, "ok"},
		{"/readyz", 500, "[-]foo failed"},
		{"/readyz?exclude=foo&verbose", 200, "[+]live ok"},
		{"/readyz/foo", 500, "waiting for caches: bar"},
		{"/metrics", 200, `millwright_build_info{`},
		{"/metrics", 200, `version="v1.2.3"`},
		{"/", 404, ""},
	} {
		t.Run(tc.path, func(t *testing.T) {
			response, err := http.Get(fmt.Sprintf("http://%s%s", server.listener.Addr(), tc.path))
			if err != nil {
				t.Fatal(err)
			}
			defer http.DefaultClient.CloseIdleConnections()
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

func TestAPortInUseIsNamedTogetherWithItsFlag(t *testing.T) {
	first, err := listen(t.Context(), "--serving-address", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.stop(t.Context())
	address := first.listener.Addr().String()
	_, err = listen(t.Context(), "--serving-address", address)
	want := fmt.Sprintf(`another process serves on %s: choose another address with --serving-address (port 0 takes a free one, "" serves nothing)`, address)
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestWithoutAnAddressNothingIsServed(t *testing.T) {
	server, err := listen(t.Context(), "--serving-address", "")
	if err != nil {
		t.Fatal(err)
	}
	server.start(t.Context(), "nothing", nil, nil, func(err error) { t.Error(err) })
	server.stop(t.Context())
}
