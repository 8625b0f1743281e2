// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeNetwork is down until it is mended, and counts.
type fakeNetwork struct {
	calls atomic.Int32
	code  int // zero: no answer
	delay time.Duration
}

func (n *fakeNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	n.calls.Add(1)
	select {
	case <-time.After(n.delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if n.code == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: n.code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: 2, Request: r}, nil
}

func newFakeHook(t *testing.T, network *fakeNetwork) *Hook {
	return newTestHook(t, Config{URL: "http://hook/sync", Instrument: answering(network.RoundTrip)})
}

func call(t *testing.T, hook *Hook) error {
	_, err := hook.Call(t.Context(), "uid", emptyRequest())
	return err
}

func TestSuspensionBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &fakeNetwork{}
		hook := newFakeHook(t, network)
		for range breakerThreshold {
			wantReason(t, call(t, hook), ReasonUnreachable, "http error: ", "connection refused")
		}
		begin := time.Now()
		var calls []time.Duration
		for time.Since(begin) < 5*time.Minute {
			before := network.calls.Load()
			err := call(t, hook)
			if network.calls.Load() > before {
				calls = append(calls, time.Since(begin))
				continue
			}
			time.Sleep(wantReason(t, err, ReasonSuspended, "sync hook http://hook/sync has not answered 5 times in a row").RetryAfter)
		}
		want := []time.Duration{1, 3, 7, 15, 31, 63, 123, 183, 243}
		for i := range want {
			if i >= len(calls) || calls[i] != want[i]*time.Second {
				t.Fatalf("called after %v, want after %v seconds", calls, want)
			}
		}
		network.code = http.StatusOK
		time.Sleep(lastPause)
		for range 3 {
			if err := call(t, hook); err != nil {
				t.Errorf("after the hook is back: %v", err)
			}
		}
	})
}

func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &fakeNetwork{}
		hook := newFakeHook(t, network)
		for range breakerThreshold {
			_ = call(t, hook)
		}
		time.Sleep(firstPause)
		network.calls.Store(0)
		network.code, network.delay = http.StatusOK, 2*time.Second
		results := make(chan error, 10)
		for range cap(results) {
			go func() { results <- call(t, hook) }()
		}
		turnedAway := 0
		for range cap(results) {
			if ReasonOf(<-results) == ReasonSuspended {
				turnedAway++
			}
		}
		if network.calls.Load() != 1 || turnedAway != 9 {
			t.Errorf("%d calls, %d turned away, want 1 and 9", network.calls.Load(), turnedAway)
		}
		if err := call(t, hook); err != nil {
			t.Errorf("after the probe: %v", err)
		}
	})
}

func TestCancelledProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &fakeNetwork{}
		hook := newFakeHook(t, network)
		for range breakerThreshold {
			_ = call(t, hook)
		}
		time.Sleep(firstPause)
		network.code, network.delay = http.StatusOK, time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := hook.Call(ctx, "uid", emptyRequest()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v, want the end of the context", err)
		}
		if err := call(t, hook); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

func TestAHookThatAnswersBadlyIsStillThere(t *testing.T) {
	for code, suspended := range map[int]bool{
		http.StatusInternalServerError: false, http.StatusTooManyRequests: false, http.StatusNotFound: false,
		http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
	} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			hook := newFakeHook(t, &fakeNetwork{code: code})
			for range breakerThreshold {
				if ReasonOf(call(t, hook)) == ReasonSuspended {
					t.Fatal("suspended too early")
				}
			}
			if got := ReasonOf(call(t, hook)) == ReasonSuspended; got != suspended {
				t.Errorf("suspended is %t, want %t", got, suspended)
			}
		})
	}
}

func TestOneAnswerMakesUpForEarlierFailures(t *testing.T) {
	network := &fakeNetwork{}
	hook := newFakeHook(t, network)
	for range 10 {
		for range breakerThreshold - 1 {
			network.code = 0
			wantReason(t, call(t, hook), ReasonUnreachable)
		}
		network.code = http.StatusInternalServerError
		wantReason(t, call(t, hook), ReasonStatus)
	}
}

func TestRunningCallsDoNotExtendASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &fakeNetwork{delay: 2 * time.Second}
		hook := newFakeHook(t, network)
		for range 4 * breakerThreshold {
			go func() { _ = call(t, hook) }()
		}
		time.Sleep(network.delay)
		synctest.Wait()
		if e := wantReason(t, call(t, hook), ReasonSuspended); e.RetryAfter != firstPause {
			t.Errorf("suspended for %s, want %s", e.RetryAfter, firstPause)
		}
	})
}

func TestPanicDuringProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &fakeNetwork{}
		panics := false
		hook := newTestHook(t, Config{URL: "http://hook/", Instrument: answering(func(r *http.Request) (*http.Response, error) {
			if panics {
				panic("in a test")
			}
			return network.RoundTrip(r)
		})})
		for range breakerThreshold {
			_ = call(t, hook)
		}
		time.Sleep(firstPause)
		panics = true
		func() {
			defer func() { _ = recover() }()
			_ = call(t, hook)
		}()
		panics, network.code = false, http.StatusOK
		if err := call(t, hook); err != nil {
			t.Errorf("after the panic: %v", err)
		}
		time.Sleep(DefaultTimeout) // until then net/http watches over the call that panicked
	})
}
