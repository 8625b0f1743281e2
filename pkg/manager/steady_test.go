// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// answers is an API server that gives these answers in turn.
type answers struct {
	t     *testing.T
	left  []func() (*http.Response, error)
	times []time.Time // of the requests
}

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	a.times = append(a.times, time.Now())
	if len(a.left) == 0 {
		a.t.Error("one request too many")
		return nil, errors.New("no answer")
	}
	answer := a.left[0]
	a.left = a.left[1:]
	return answer()
}

// newSteady returns a transport of informers of our own kinds.
func newSteady(server http.RoundTripper) *steadyTransport {
	return &steadyTransport{next: server, stalls: newStalls()}
}

func noAnswer() (*http.Response, error) { return nil, errors.New("connection refused") }

func answer(code int, body io.Reader, header ...string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		resp := &http.Response{StatusCode: code, Status: http.StatusText(code), Header: http.Header{}, Body: io.NopCloser(body)}
		for i := 0; i < len(header); i += 2 {
			resp.Header.Set(header[i], header[i+1])
		}
		return resp, nil
	}
}

func request(t *testing.T, ctx context.Context, method, path string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "https://api"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestListRetriesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{t: t, left: []func() (*http.Response, error){
			noAnswer,
			answer(500, strings.NewReader(`{"kind":"Status","apiVersion":"v1","message":"etcdserver: no leader"}`)),
			answer(503, strings.NewReader("not JSON")),
			answer(429, strings.NewReader(""), "Retry-After", "7"),
			answer(200, strings.NewReader("list")),
		}}
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		resp, err := newSteady(server).RoundTrip(request(t, klog.NewContext(t.Context(), logger), http.MethodGet, "/api/v1/pods"))
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("got %v, %v", resp, err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "list" {
			t.Errorf("got %q, %v", body, err)
		}
		pause := [2]time.Duration{steadyPause / 2, 3 * steadyPause / 2}
		for i, limits := range [][2]time.Duration{pause, pause, pause, {7 * time.Second, 7 * time.Second}} {
			if pause := server.times[i+1].Sub(server.times[i]); pause < limits[0] || pause > limits[1] {
				t.Errorf("pause %d was %s, not within %s", i+1, pause, limits)
			}
		}
		log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		for _, want := range []string{"The API server does not answer lists and watches; retrying", "connection refused", "The API server answers lists and watches again"} {
			if strings.Count(log, want) != 1 {
				t.Errorf("want this once: %s\n%s", want, log)
			}
		}
	})
}

func TestErrorReasons(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind":"Status","apiVersion":"v1","message":"etcdserver: no leader"}`: "etcdserver: no leader",
		"not JSON": "Internal Server Error",
	} {
		resp, err := answer(500, strings.NewReader(body))()
		if err != nil {
			t.Fatal(err)
		}
		if got := readError(resp).Error(); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestPermanentErrorsAreReportedImmediately(t *testing.T) {
	for _, code := range []int{401, 403, 410, 422, 504} {
		server := &answers{t: t, left: []func() (*http.Response, error){answer(code, strings.NewReader(""))}}
		resp, err := newSteady(server).RoundTrip(request(t, t.Context(), http.MethodGet, "/api/v1/pods?watch=true"))
		if err != nil || resp.StatusCode != code {
			t.Errorf("%d: got %v, %v", code, resp, err)
		}
	}
}

func TestAWriteIsNeverRepeated(t *testing.T) {
	server := &answers{t: t, left: []func() (*http.Response, error){answer(500, strings.NewReader(""))}}
	resp, err := newSteady(server).RoundTrip(request(t, t.Context(), http.MethodPost, "/api/v1/pods"))
	if err != nil || resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestAWaitForTheAPIServerEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := &answers{t: t, left: []func() (*http.Response, error){noAnswer}}
		time.AfterFunc(time.Millisecond, cancel)
		begin := time.Now()
		if _, err := newSteady(server).RoundTrip(request(t, ctx, http.MethodGet, "/api/v1/pods")); err == nil || time.Since(begin) > time.Millisecond {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

func TestBrokenWatchLooksLikeAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, breakIt := io.Pipe()
		server := &answers{t: t, left: []func() (*http.Response, error){answer(200, broken)}}
		resp, err := newSteady(server).RoundTrip(request(t, t.Context(), http.MethodGet, "/api/v1/pods?watch=true"))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		go func() {
			_, _ = breakIt.Write([]byte("event"))
			breakIt.CloseWithError(errors.New("stream error"))
		}()
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "event" {
			t.Errorf("got %q, %v", body, err)
		}
		if lasted := time.Since(begin); lasted != shortestWatch {
			t.Errorf("it lasted %s", lasted)
		}
	})
}

func TestBrokenWatchClosesImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, breakIt := io.Pipe()
		server := &answers{t: t, left: []func() (*http.Response, error){answer(200, broken)}}
		resp, err := newSteady(server).RoundTrip(request(t, t.Context(), http.MethodGet, "/api/v1/pods?watch=true"))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		breakIt.CloseWithError(errors.New("stream error"))
		time.AfterFunc(time.Millisecond, func() { _ = resp.Body.Close() })
		if _, err := io.ReadAll(resp.Body); err == nil || time.Since(begin) > time.Millisecond {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}
