// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	klog.StopFlushDaemon()
	goleak.VerifyTestMain(m)
}

func testContext(t testing.TB) context.Context {
	return klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig()))
}

// newTestHook makes a hook of a client of its own, and closes it with the test.
func newTestHook(t testing.TB, config Config) *Hook {
	t.Helper()
	if config.Phase == "" {
		config.Phase = "sync"
	}
	hook, err := NewClient(Options{}).NewHook(testContext(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hook.Close)
	return hook
}

// roundTripper answers without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering replaces the network.
func answering(f roundTripper) func(http.RoundTripper) http.RoundTripper {
	return func(http.RoundTripper) http.RoundTripper { return f }
}

// emptyRequest is a request whose contents do not matter.
func emptyRequest() *Request {
	return NewCustomizeRequest(CustomizeRequest{Controller: `{}`, Parent: `{}`})
}

// wantReason fails the test unless the error has the reason and its text has all parts.
func wantReason(t *testing.T, err error, reason Reason, parts ...string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %v, want one of the reason %s", err, reason)
	}
	if e.Reason != reason {
		t.Errorf("reason of %q is %s, want %s", err, e.Reason, reason)
	}
	for _, part := range parts {
		if !strings.Contains(e.Error(), part) {
			t.Errorf("error %q lacks %q", e, part)
		}
	}
	return e
}
