// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slowHooks makes hooks of one client whose calls take a minute, and returns how many calls are under way.
func slowHooks(t *testing.T, options Options, urls ...string) (hooks []*Hook, underWay func() int) {
	return hooksThatTake(t, time.Minute, options, urls...)
}

func hooksThatTake(t *testing.T, each time.Duration, options Options, urls ...string) (hooks []*Hook, underWay func() int) {
	running := make(chan struct{}, 1000)
	client := NewClient(options)
	hour := time.Hour
	for _, url := range urls {
		hook, err := client.NewHook(t.Context(), Config{Phase: "sync", URL: url, Timeout: &hour, Instrument: answering(func(r *http.Request) (*http.Response, error) {
			running <- struct{}{}
			time.Sleep(each)
			<-running
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(hook.Close)
		hooks = append(hooks, hook)
	}
	return hooks, func() int { return len(running) }
}

func TestConcurrentCallsPerHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks, underWay := slowHooks(t, Options{PerHost: 3, WaitingPerHost: 2}, "http://a/sync", "http://A:80/finalize", "http://b/sync")
		began := time.Now()
		results := make(chan error, 7)
		for i := range cap(results) {
			go func() {
				_, err := hooks[i%2].Call(t.Context(), "uid", emptyRequest())
				results <- err
			}()
		}
		synctest.Wait()
		if underWay() != 3 {
			t.Errorf("%d calls are under way, want 3", underWay())
		}
		for range 2 { // of seven three run and two wait
			e := wantReason(t, <-results, ReasonBusy, "3 calls to a:80 are under way")
			if e.RetryAfter <= 0 {
				t.Errorf("does not say when to come back: %v", e)
			}
		}
		if waited := time.Since(began); waited > shortPatience {
			t.Errorf("those that are turned away were held for %s, want %s at most", waited, shortPatience)
		}
		go func() { _, _ = hooks[2].Call(t.Context(), "uid", emptyRequest()) }()
		synctest.Wait()
		if underWay() != 4 {
			t.Errorf("with one to another host %d calls are under way, want 4", underWay())
		}
		for range 5 {
			if err := <-results; err != nil {
				t.Errorf("a call that had its turn: %v", err)
			}
		}
		synctest.Wait()
	})
}

func TestFastHookRefusesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks, _ := hooksThatTake(t, 5*time.Millisecond, Options{PerHost: 3, WaitingPerHost: 2}, "http://a/sync")
		results := make(chan error, 50)
		for range cap(results) {
			go func() {
				_, err := hooks[0].Call(t.Context(), "uid", emptyRequest())
				results <- err
			}()
		}
		for range cap(results) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWaitingCallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks, _ := slowHooks(t, Options{PerHost: 1}, "http://a/sync")
		go func() { _, _ = hooks[0].Call(t.Context(), "uid", emptyRequest()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := hooks[0].Call(ctx, "uid", emptyRequest()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v, want the end of the context", err)
		}
		time.Sleep(time.Minute)
	})
}

func TestNothingIsKeptOfHooksThatAreClosed(t *testing.T) {
	client := NewClient(Options{})
	hook, err := client.NewHook(t.Context(), Config{URL: "http://a/sync", Instrument: answering((&fakeNetwork{code: http.StatusOK}).RoundTrip)})
	if err != nil {
		t.Fatal(err)
	}
	if err := call(t, hook); err != nil {
		t.Error(err)
	}
	hook.Close()
	hook.Close()
	if len(client.hosts.known) != 0 || len(client.transports.known) != 0 {
		t.Errorf("left are the hosts %v and %d transports", client.hosts.known, len(client.transports.known))
	}
	wantReason(t, call(t, hook), ReasonInvalidConfiguration)
}
