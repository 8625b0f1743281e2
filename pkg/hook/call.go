// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// failureBody is how many bytes of the body of a failed answer are read.
const failureBody = 64 << 10

// wantsCertificate are the ways in which net/http reports that a server refuses a client without a certificate: with TLS 1.3
// only the first use of the connection fails, and HTTP/2 may notice before the reason has come.
var wantsCertificate = []string{"tls: certificate required", "http2: client conn could not be established"}

// Call sends the request and returns the answer. The key (the UID of the parent) selects the ETag of the earlier answer. The error is an
// [*Error]; if the context has ended, it wraps its cause.
func (h *Hook) Call(ctx context.Context, key string, request *Request) (*Answer, error) {
	way, err := h.connect() // first: new credentials end a suspension
	if err != nil {
		return nil, err
	}
	defer h.client.transports.release(way.transport)
	if wait := h.breaker.blocked(); wait > 0 {
		return nil, h.suspended(wait)
	}
	if err := h.tenant.acquire(ctx, h.timeout); err != nil {
		return nil, err
	}
	defer h.tenant.release()
	permit, wait := h.breaker.allow()
	if wait > 0 {
		return nil, h.suspended(wait)
	}
	report := h.breaker.abandoned // also where what is below panics
	defer func() { report(permit) }()
	answer, err := h.exchange(ctx, way, key, request)
	switch {
	case err != nil && ctx.Err() != nil: // not for the hook's sake
	case isOutage(err):
		report = h.breaker.failed
	default:
		report = h.breaker.answered
	}
	return answer, err
}

// Longest returns the longest duration of a call: it may wait for other calls to the same host as long as for its own answer.
func (h *Hook) Longest() time.Duration { return 2 * h.timeout }

func (h *Hook) suspended(wait time.Duration) error {
	e := newError(ReasonSuspended, "%s hook %s has not answered %d times in a row: not calling it for %s", h.phase, h.URL(), breakerThreshold, wait.Round(time.Second/10))
	e.RetryAfter = wait
	return e
}

// isOutage reports whether the hook did not answer: no response came, or one of a proxy before it.
func isOutage(err error) bool {
	e, ok := err.(*Error)
	if !ok {
		return false
	}
	switch e.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return e.Reason == ReasonUnreachable
}

// exchange is one HTTP exchange, redirects included, within the timeout.
func (h *Hook) exchange(ctx context.Context, way *link, key string, request *Request) (*Answer, error) {
	noAnswer := fmt.Errorf("no complete answer within %s (Client.Timeout exceeded)", h.timeout)
	timed, cancelTimed := context.WithTimeoutCause(ctx, h.timeout, noAnswer)
	defer cancelTimed()
	bounded, cancel := context.WithCancelCause(timed)
	defer cancel(nil)
	answer, err := h.send(bounded, cancel, way, key, request)
	if cause := context.Cause(bounded); ReasonOf(err) == ReasonUnreachable && (cause == noAnswer || cause == errSlowBody) {
		// The text does not depend on the progress, so that repeated failures make one event.
		return nil, newError(ReasonUnreachable, "http error: Post %q: %w", h.URL(), cause)
	}
	return answer, err
}

func (h *Hook) send(ctx context.Context, cancel context.CancelCauseFunc, way *link, key string, request *Request) (*Answer, error) {
	outgoing, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url.String(), request.open())
	if err != nil {
		return nil, newError(ReasonInvalidConfiguration, "%s hook %s: making a request: %w", h.phase, h.URL(), err)
	}
	outgoing.ContentLength = request.size
	outgoing.GetBody = func() (io.ReadCloser, error) { return request.open(), nil } // for redirects and second tries
	outgoing.Header.Set("Content-Type", "application/json")
	// A hook only computes: a request that met a closing connection is sent again. This header is not sent.
	outgoing.Header["Idempotency-Key"] = nil
	if way.header != "" {
		outgoing.Header.Set("Authorization", way.header)
	}
	var known *etagEntry
	if h.etags != nil {
		if known = h.etags.get(key); known != nil {
			outgoing.Header.Set("If-None-Match", known.etag)
		}
	}
	response, err := way.client.Do(outgoing)
	if refused, ok := errors.AsType[*Error](err); ok {
		return nil, refused // a redirect
	}
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // which has the whole URL
			err = fmt.Errorf("%s %q: %w", failed.Op, h.URL(), failed.Err)
		}
		return nil, newError(ReasonUnreachable, "http error: %w%s", err, h.hint(err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return h.receiveOther(known, response, way.header)
	}
	answer, err := h.readBody(ctx, cancel, response)
	if etag := response.Header.Get("ETag"); err == nil && h.etags != nil && etag != "" {
		h.etags.put(key, etag, answer.clone())
	}
	return answer, err
}

// hint returns what an author may do about the error, "" if nothing is known.
func (h *Hook) hint(err error) string {
	for _, text := range wantsCertificate {
		if h.access.ClientTLS == nil && strings.Contains(err.Error(), text) {
			return " (maybe the hook wants a client certificate: the controller has no clientTLS for it)"
		}
	}
	return ""
}

// receiveOther returns the error for a failed answer.
func (h *Hook) receiveOther(known *etagEntry, response *http.Response, authorization string) (*Answer, error) {
	code := response.StatusCode
	// A connection whose body is read to its end can be used again. What there is of it explains the code; an error while
	// reading adds nothing.
	start, _ := io.ReadAll(io.LimitReader(response.Body, failureBody))
	switch {
	case code == http.StatusTooManyRequests:
		e := newError(ReasonTooManyRequests, "%s hook %s: too many requests", h.phase, h.URL())
		if e.RetryAfter = retryAfter(response.Header.Get("Retry-After"), time.Now()); e.RetryAfter > 0 {
			e.err = fmt.Errorf("%w: retry after %s", e.err, e.RetryAfter.Round(time.Second))
		}
		e.StatusCode = code
		return nil, e
	case known != nil && (code == http.StatusNotModified || code == http.StatusPreconditionFailed):
		answer := known.answer
		answer.NotModified, answer.hook, answer.share = true, h, h.client.budget.share()
		return &answer, nil
	default:
		e := newError(ReasonStatus, "unsupported status code: %d", code)
		e.StatusCode, e.body = code, excerpt(code, response.Header, start, authorization)
		return nil, e
	}
}
