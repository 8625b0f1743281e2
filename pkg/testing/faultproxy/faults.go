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

// All are all requests.
func All(Request) bool { return true }

// Writes are requests that change something, renewals of Leases and events included.
func Writes(r Request) bool { return r.IsWrite() }

// Watches are requests for a stream of changes. Those that are open are not ended by answering new ones with an error; see
// [Proxy.CutWatches].
func Watches(r Request) bool { return r.Verb == "watch" }

// fault answers some requests in the place of the API server, or does not.
type fault struct {
	on func(Request) bool
	// with is the answer; nil for none.
	with *apierrors.StatusError
}

// Answer gives an error to the requests of which on is true, which the API server then does not see, until stop is called. Of
// several such faults the first one counts. on may be called by many requests at a time.
//
// The error has the header Retry-After if its details have RetryAfterSeconds, as [apierrors.NewTooManyRequests] sets it for more
// than 0 seconds. client-go repeats such requests itself, up to ten times.
func (p *Proxy) Answer(on func(Request) bool, with *apierrors.StatusError) (stop func()) {
	return p.strike(&fault{on: on, with: with})
}

// Hang accepts the requests of which on is true and never answers them, nor lets the API server see them, until stop is called. Those
// that were struck until then stay without an answer, until the client gives up. Connections stay well, pings included.
func (p *Proxy) Hang(on func(Request) bool) (stop func()) { return p.strike(&fault{on: on}) }

func (p *Proxy) strike(f *fault) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		// A copy, since requests look through the faults without the lock.
		p.faults = slices.DeleteFunc(slices.Clone(p.faults), func(other *fault) bool { return other == f })
	}
}

// faultFor returns the fault that strikes the request, nil for none.
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
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"} // without it no client reads on
	body, marshalErr := json.Marshal(status)
	if marshalErr != nil {
		panic(fmt.Sprintf("encoding a metav1.Status: %v", marshalErr))
	}
	if details := status.Details; details != nil && details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(details.RetryAfterSeconds)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(body) // a client that has gone does not want it
}

// CutWatches breaks off all open watches, as load balancers and restarted proxies do, and tells how many there were. Clients may
// open new ones at once.
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

// Refuse closes the port and all connections: the API server is gone. New connections are refused until Accept.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopServing()
}

// Accept ends Refuse: the proxy is there again, on the same port.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startServing()
}

// Freeze stops everything that is on its way between the process and the proxy, in both directions, but no connection breaks
// and new ones are taken: what a lost route looks like. Nothing is lost: Thaw delivers what has piled up.
func (p *Proxy) Freeze() { p.road.freeze() }

// Thaw ends Freeze.
func (p *Proxy) Thaw() { p.road.thaw() }

// SetLatency makes everything that the proxy sends arrive that much later, watch events and TLS handshakes included, in its order.
func (p *Proxy) SetLatency(latency time.Duration) { p.road.setLatency(latency) }
