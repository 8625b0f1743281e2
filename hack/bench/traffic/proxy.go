// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// readHeaderTimeout bounds how long a client may take to send the head of a request.
const readHeaderTimeout = 10 * time.Second

// Proxy passes requests on to an API server, on loopback without TLS, and records those that count. Every client that reaches its
// port has the rights of the configuration that it was started with.
type Proxy struct {
	// URL to be used instead of the API server's.
	URL string

	forward httputil.ReverseProxy
	server  http.Server
	served  chan struct{}
	places  atomic.Int64 // the last one

	mu       sync.Mutex
	requests []Request
	// createdFor has the object that each thing was created for, by resource and name.
	createdFor map[string]string
	err        error
}

// underWay is a request that counts and is not answered yet. It is kept in the context of the request.
type underWay struct {
	Request
	info *request.RequestInfo
}

type underWayKey struct{}

// StartProxy starts a proxy to the API server of the configuration. Close stops it.
func StartProxy(config *rest.Config) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's URL: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the proxy's transport to %s: %w", config.Host, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the client of the proxy: %w", err)
	}
	p := &Proxy{URL: "http://" + listener.Addr().String(), served: make(chan struct{}), createdFor: map[string]string{}}
	p.forward = httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Accept-Encoding") // answers are read here
		},
		Transport:      transport,
		FlushInterval:  -1, // watches
		ModifyResponse: p.record,
		ErrorLog:       log.New(io.Discard, "", 0), // of watches whose client has gone
	}
	p.server = http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: readHeaderTimeout, ErrorLog: p.forward.ErrorLog}
	go func() {
		defer close(p.served)
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.err = fmt.Errorf("serving the proxy: %w", err)
		}
	}()
	return p, nil
}

// Take returns what was recorded since it was last called, in the order in which it began. The error is of a request that could not
// be read; then the record is not complete.
func (p *Proxy) Take() ([]Request, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests := p.requests
	p.requests = nil
	slices.SortFunc(requests, func(a, b Request) int { return cmp.Compare(a.Began, b.Began) })
	return requests, p.err
}

// Close closes all connections and returns when nothing is served any more.
func (p *Proxy) Close() error {
	err := p.server.Close()
	<-p.served
	return err
}

func (p *Proxy) serve(w http.ResponseWriter, req *http.Request) {
	info, err := requestInfos.NewRequestInfo(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if counts(info) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the client has gone
		}
		resource := info.Resource
		if info.Subresource != "" {
			resource += "/" + info.Subresource
		}
		req = req.WithContext(context.WithValue(req.Context(), underWayKey{}, &underWay{info: info, Request: Request{
			Verb: info.Verb, Resource: resource, Body: body, Method: req.Method, URI: req.URL.RequestURI(),
			ContentType: req.Header.Get("Content-Type"), Accept: req.Header.Get("Accept"), Began: p.places.Add(1),
		}}))
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	p.forward.ServeHTTP(w, req)
}

// record records a request that counts before its client gets the answer: what the client sends next has a later place.
func (p *Proxy) record(resp *http.Response) error {
	r, ok := resp.Request.Context().Value(underWayKey{}).(*underWay)
	if !ok {
		return nil
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Code, r.Answered = resp.StatusCode, p.places.Add(1)
	target, err := r.complete(r.info, answer)
	p.err = errors.Join(p.err, err)
	switch {
	case target == "":
	case r.Object == "":
		r.Object = p.createdFor[target]
	case r.Verb == "create":
		p.createdFor[target] = r.Object
	}
	p.requests = append(p.requests, r.Request)
	return nil
}
