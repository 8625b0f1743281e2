// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/klog/v2/ktesting"
)

func TestChecksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		check := &sharedCheck{logger: ktesting.NewLogger(t, ktesting.NewConfig()), HealthChecker: healthz.NamedCheck("kube-apiserver", func(r *http.Request) error {
			asked++
			return r.Context().Err()
		})}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		probe := func() {
			var probes sync.WaitGroup
			for range 500 {
				probes.Go(func() {
					if err := check.Check(httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)); err != nil {
						t.Errorf("a probe that does not wait changes the answer: %v", err)
					}
				})
			}
			probes.Wait()
		}
		probe()
		time.Sleep(checkTTL / 2)
		probe()
		if asked != 1 {
			t.Errorf("asked %d times for 1000 requests in a second, want once", asked)
		}
		time.Sleep(checkTTL)
		probe()
		if asked != 2 {
			t.Errorf("asked %d times in two seconds, want twice", asked)
		}
	})
}

func TestWhyItIsNotReadyIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		var problem error
		check := &sharedCheck{HealthChecker: healthz.NamedCheck("llama-storage", func(*http.Request) error { return problem }), logger: logger}
		for _, problem = range []error{nil, errors.New("no CRD"), errors.New("no CRD"), nil, nil} {
			if got := check.Check(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)); !errors.Is(got, problem) {
				t.Errorf("answered %v, not %v", got, problem)
			}
			time.Sleep(checkTTL)
		}
		var logged []string
		for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
			logged = append(logged, entry.Message)
		}
		if len(logged) != 2 || logged[0] != "Not ready" || logged[1] != "Ready again" {
			t.Errorf("logged %q", logged)
		}
	})
}
