// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/klog/v2/ktesting"
)

// probe calls the check as a request that is cancelled does.
func probe(t *testing.T, check *sharedCheck) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return check.Check(httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
}

func TestChecksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		check := &sharedCheck{logger: ktesting.NewLogger(t, ktesting.NewConfig()), HealthChecker: healthz.NamedCheck("kube-apiserver", func(r *http.Request) error {
			asked++
			return r.Context().Err()
		})}
		expect := func(want int) {
			t.Helper()
			for range 500 {
				if err := probe(t, check); err != nil {
					t.Fatalf("a probe that does not wait changes the answer: %v", err)
				}
			}
			if asked != want {
				t.Errorf("got %d questions, want %d", asked, want)
			}
		}
		expect(1)
		time.Sleep(checkTTL / 2)
		expect(1)
		time.Sleep(checkTTL)
		expect(2)
	})
}

// While kube-apiserver does not answer, one request waits, and the others get the last answer.
func TestOneRequestWaitsForACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, failure := make(chan struct{}), errors.New("no answer")
		var answer error
		check := &sharedCheck{logger: ktesting.NewLogger(t, ktesting.NewConfig()), HealthChecker: healthz.NamedCheck("kube-apiserver", func(*http.Request) error {
			<-hangs
			return answer
		})}
		for _, step := range []struct{ meanwhile, answer error }{{errNotAsked, nil}, {nil, failure}, {failure, nil}, {nil, nil}} {
			answer = step.answer
			waited := make(chan error)
			go func() { waited <- probe(t, check) }()
			synctest.Wait()
			for range 500 {
				if err := probe(t, check); !errors.Is(err, step.meanwhile) {
					t.Fatalf("while the check is asked: got %v, want %v", err, step.meanwhile)
				}
			}
			hangs <- struct{}{}
			if err := <-waited; !errors.Is(err, step.answer) {
				t.Errorf("got %v, want %v", err, step.answer)
			}
			time.Sleep(checkTTL)
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
