// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// All matches all requests.
func All(Request) bool { return true }

// Writes matches requests that change something, renewals of Leases and events included.
func Writes(r Request) bool { return r.IsWrite() }

// Watches matches requests for a stream of changes. Answering them with an error does not end open watches; see [Proxy.CutWatches].
func Watches(r Request) bool { return r.Verb == "watch" }

// fault answers the matching requests in place of the API server, or leaves them without an answer.
type fault struct {
	on func(Request) bool
	// with is the answer, or nil for none.
	with *apierrors.StatusError
}

// Answer answers the requests that match on with an error until stop is called. The API server does not see these requests. If several
// faults match a request, the first one answers. on must be safe for concurrent use.
//
// The answer has the header Retry-After if the details of the error have RetryAfterSeconds, which [apierrors.NewTooManyRequests] sets for
// more than 0 seconds. client-go repeats such requests itself, up to ten times.
func (p *Proxy) Answer(on func(Request) bool, with *apierrors.StatusError) (stop func()) {
	return p.strike(&fault{on: on, with: with})
}

// Hang accepts the requests that match on and neither forwards nor answers them, until stop is called. Requests that hang then never get
// an answer: the client has to give up. Connections are not affected, pings included.
func (p *Proxy) Hang(on func(Request) bool) (stop func()) { return p.strike(&fault{on: on}) }

func (p *Proxy) strike(f *fault) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		// A copy, because faultFor reads the slice without the lock.
		p.faults = slices.DeleteFunc(slices.Clone(p.faults), func(other *fault) bool { return other == f })
	}
}

// faultFor returns the first fault that matches the request, or nil.
func (p *Proxy) faultFor(r Request) *fault {
	p.mu.Lock()
	faults := p.faults
	p.mu.Unlock()
	for _, f := range faults {
		if f.on(r) {
			return f
		}
	}
	return nil
}

func writeStatus(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"} // without it no client decodes the answer
	body, marshalErr := json.Marshal(status)
	if marshalErr != nil {
		panic(fmt.Sprintf("encoding a metav1.Status: %v", marshalErr))
	}
	if details := status.Details; details != nil && details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(details.RetryAfterSeconds)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(body) // fails only if the client has closed the connection
}

// CutWatches breaks all open watches, as load balancers and restarted proxies do, and returns their number. Clients may open new ones
// immediately.
func (p *Proxy) CutWatches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	cut := len(p.watches)
	for _, cancel := range p.watches {
		cancel()
	}
	clear(p.watches)
	return cut
}

// Refuse closes the port and all connections, as if the API server had stopped. New connections are refused until Accept.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopServing()
}

// Accept ends Refuse: the proxy listens again, on the same port.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startServing()
}

// Freeze holds back all data between the process and the proxy, in both directions. No connection breaks and new ones are accepted, as
// with a lost route. No data is lost: Thaw delivers it.
func (p *Proxy) Freeze() { p.link.freeze() }

// Thaw ends Freeze.
func (p *Proxy) Thaw() { p.link.thaw() }

// SetLatency delays everything that the proxy sends, watch events and TLS handshakes included. The order stays the same.
func (p *Proxy) SetLatency(latency time.Duration) { p.link.setLatency(latency) }
