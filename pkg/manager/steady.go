// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
)

const (
	// steadyPause is the average time between two tries.
	steadyPause = time.Second
	// shortestWatch is how long a watch lasts at least, as the reflector sees it. For the reflector, a watch that ends without an
	// event in its first second is an error.
	shortestWatch = 1100 * time.Millisecond
	// maxErrorBody is how much of an error's body is read for the log.
	maxErrorBody = 16 << 10
)

// steadyTransport retries the lists and watches of informers. A reflector itself waits after an error, longer each time, up to a minute, and
// resets only after two minutes without an error: after eight seconds of errors, controllers saw no events for forty more seconds.
// Informers have no option for that. So this transport below them retries transient errors every second, and makes a watch that
// breaks look like one that has ended normally, so that the reflector resumes it immediately. A process has only a few informers; one
// try per second of each is no load.
//
// A resource of ours that is not served is tried again likewise: its CustomResourceDefinition was deleted, and may be installed again.
//
// Other errors (no permission, a version that is gone, ...) are passed to the reflector.
type steadyTransport struct {
	next   http.RoundTripper
	stalls *stalls
	// lenient is for lists and watches whose user finds out by himself that the resource is not served or not allowed: for what users declare.
	lenient bool

	mu        sync.Mutex
	complaint complaint
}

// RoundTrip implements http.RoundTripper.
func (s *steadyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return s.next.RoundTrip(req)
	}
	attempt := s.stalls.begin(s, req)
	for {
		resp, err := s.next.RoundTrip(req)
		notServed := err == nil && resp.StatusCode == http.StatusNotFound && attempt != nil && !s.lenient
		if err == nil && !passes(resp.StatusCode) && !notServed {
			s.settle(req.Context())
			s.conclude(attempt, req, resp)
			return resp, nil
		}
		pause := steadyPause/2 + rand.N(steadyPause)
		if err == nil {
			pause = max(pause, time.Duration(retryAfter(resp))*time.Second)
			err = readError(resp)
		}
		if req.Context().Err() != nil {
			return nil, err
		}
		attempt.fail(err, notServed)
		s.complain(req, err, notServed)
		select {
		case <-time.After(pause):
		case <-req.Context().Done():
			return nil, err
		}
	}
}

// conclude records what a response means for its attempt.
func (s *steadyTransport) conclude(attempt *attempt, req *http.Request, resp *http.Response) {
	switch code := resp.StatusCode; {
	case code == http.StatusOK && req.URL.Query().Has("watch"):
		attempt.succeeded()
		resp.Body = &steadyBody{ReadCloser: resp.Body, ctx: req.Context(), opened: time.Now(), closed: make(chan struct{})}
	case code == http.StatusOK:
		resp.Body = &listBody{ReadCloser: resp.Body, attempt: attempt}
	case s.lenient && (code == http.StatusForbidden || code == http.StatusNotFound || code == http.StatusMethodNotAllowed):
		attempt.succeeded()
	default:
		attempt.failed(peekError(resp))
	}
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (s *steadyTransport) WrappedRoundTripper() http.RoundTripper { return s.next }

// passes reports whether an error is transient. 504 is left to the reflector, which handles it: the API server returns it if it has
// not reached a resourceVersion yet.
func passes(code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable:
		return true
	default:
		return false
	}
}

// readError returns the error in the API server's answer, or the status line if there is none.
func readError(resp *http.Response) error {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		body = nil
	}
	return errorOf(resp.Status, body)
}

func errorOf(status string, body []byte) error {
	if object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		return apierrors.FromObject(object)
	}
	return errors.New(status)
}

// peekError is readError for a response that is passed on.
func peekError(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), rest}
	if err != nil {
		return err
	}
	return errorOf(resp.Status, body)
}

func (s *steadyTransport) complain(req *http.Request, err error, notServed bool) {
	message := "The API server does not answer lists and watches; retrying"
	if notServed {
		message = "The API server does not serve a resource any more: install its CustomResourceDefinition; retrying"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complaint.say(klog.FromContext(req.Context()), message, fmt.Errorf("%s: %w", req.URL.Path, err))
}

func (s *steadyTransport) settle(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complaint.settle(klog.FromContext(ctx), "The API server answers lists and watches again")
}

// listBody is the body of a list, which has succeeded when all of it has come.
type listBody struct {
	io.ReadCloser
	attempt *attempt
	err     error
}

// Read implements io.Reader.
func (b *listBody) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	if err != nil {
		b.err = err
	}
	return n, err
}

// Close implements io.Closer. A reader that needs no more need not have come to the end.
func (b *listBody) Close() error {
	if b.err == nil || b.err == io.EOF {
		b.attempt.succeeded()
	} else {
		b.attempt.failed(b.err)
	}
	return b.ReadCloser.Close()
}

// steadyBody is the stream of a watch.
type steadyBody struct {
	io.ReadCloser
	ctx    context.Context // of the request
	opened time.Time
	once   sync.Once
	closed chan struct{}
}

// Read implements io.Reader.
func (b *steadyBody) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	if n > 0 || err == nil {
		return n, nil // an error comes again
	}
	timer := time.NewTimer(time.Until(b.opened.Add(shortestWatch)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0, io.EOF
	case <-b.ctx.Done():
	case <-b.closed:
	}
	return 0, err
}

// Close implements io.Closer.
func (b *steadyBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}
