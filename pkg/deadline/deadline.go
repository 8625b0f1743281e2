// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Default is longer than an API server gives itself for a request, which is 60 seconds (--request-timeout of kube-apiserver): its
// own answer, a 504, explains more than ours.
const Default = 75 * time.Second

// Wrap gives all clients made from the configuration deadlines of this length. Call it before other wrappers are added that try
// again, so that each try has its own.
func Wrap(config *rest.Config, limit time.Duration) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, limit: limit} })
}

// Error is that of a request that was not answered in time. It implements net.Error.
type Error struct {
	// Method and Path of the request.
	Method, Path string
	// Missing is what did not come.
	Missing string
	// Limit is for how long it was waited for.
	Limit time.Duration
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: %s within %s: the API server, or a proxy before it, accepted the request and does not answer", e.Method, e.Path, e.Missing, e.Limit)
}

// Timeout implements net.Error.
func (e *Error) Timeout() bool { return true }

// Temporary implements net.Error.
func (e *Error) Temporary() bool { return true }

type transport struct {
	next  http.RoundTripper
	limit time.Duration
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if isStream(req) {
		return t.next.RoundTrip(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	x := &exchange{ctx: ctx, cancel: cancel, request: req}
	x.wait(t.limit, "no answer")
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	late := x.arrived()
	switch {
	case late != nil:
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, late
	case err != nil:
		cancel(nil)
		return nil, err
	}
	if !isWatch(req) {
		resp.Body = &body{ReadCloser: resp.Body, exchange: x, limit: t.limit}
		return resp, nil
	}
	if lasts, ok := watchTimeout(req); ok {
		x.wait(lasts+t.limit, "the watch did not end")
	}
	resp.Body = &body{ReadCloser: resp.Body, exchange: x}
	return resp, nil
}

// isStream is true for requests whose answer may begin at any time.
func isStream(req *http.Request) bool {
	if req.Header.Get("Upgrade") != "" {
		return true
	}
	return strings.HasSuffix(req.URL.Path, "/log") && isTrue(req, "follow")
}

func isWatch(req *http.Request) bool { return req.Method == http.MethodGet && isTrue(req, "watch") }

func isTrue(req *http.Request, parameter string) bool {
	value := req.URL.Query().Get(parameter)
	return value != "" && value != "false" && value != "0"
}

// watchTimeout returns how long the watch lasts by request.
func watchTimeout(req *http.Request) (time.Duration, bool) {
	seconds, err := strconv.ParseUint(req.URL.Query().Get("timeoutSeconds"), 10, 31)
	if err != nil || seconds == 0 {
		return 0, false
	}
	return time.Duration(seconds) * time.Second, true
}

// exchange is one request and its answer.
type exchange struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	request *http.Request

	mu      sync.Mutex
	timer   *time.Timer
	waiting bool
	missing string
	limit   time.Duration
}

// wait cancels the exchange unless arrived is called in time.
func (x *exchange) wait(limit time.Duration, missing string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waiting, x.missing, x.limit = true, missing, limit
	if x.timer == nil {
		x.timer = time.AfterFunc(limit, x.expire)
		return
	}
	x.timer.Reset(limit)
}

func (x *exchange) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.waiting {
		x.cancel(&Error{Method: x.request.Method, Path: x.request.URL.Path, Missing: x.missing, Limit: x.limit})
	}
}

// arrived ends the wait, and returns an *Error if it came too late.
func (x *exchange) arrived() error {
	x.mu.Lock()
	x.waiting = false
	x.timer.Stop()
	x.mu.Unlock()
	return x.late()
}

func (x *exchange) late() error {
	if err, ok := context.Cause(x.ctx).(*Error); ok {
		return err
	}
	return nil
}

// body of an answer.
type body struct {
	io.ReadCloser
	exchange *exchange
	limit    time.Duration // of one read; 0 for none
}

// Read implements io.Reader. The time that the reader takes between two reads does not count.
func (b *body) Read(buffer []byte) (int, error) {
	if b.limit > 0 {
		b.exchange.wait(b.limit, "the answer did not go on")
	}
	n, err := b.ReadCloser.Read(buffer)
	if b.limit > 0 {
		_ = b.exchange.arrived() // what has come is good; if it came late, the next read fails
	}
	if err != nil {
		if late := b.exchange.late(); late != nil {
			err = late
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	_ = b.exchange.arrived() // an error of this kind was returned by Read
	b.exchange.cancel(nil)
	return err
}
