// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"cmp"
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

	"k8s.io/client-go/rest"
)

// readHeaderTimeout is for clients that do not go on; there are none but ours.
const readHeaderTimeout = 10 * time.Second

// Proxy stands between a client and an API server, on loopback without TLS, and records the requests that count. It has the
// rights of the configuration that it was started with, and so has everyone who reaches its port.
type Proxy struct {
	// URL to be used in place of the API server's.
	URL string

	forward *httputil.ReverseProxy
	server  http.Server
	served  chan struct{}
	places  atomic.Int64 // the last one that was given out

	mu       sync.Mutex
	requests []Request
	// createdFor has the object that each thing was created for, by what requests target.
	createdFor map[string]string
	err        error
	// recording are those whose client may know the answer already, and recorded tells of each that is done with.
	recording int
	recorded  sync.Cond
}

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
	p := &Proxy{
		URL: "http://" + listener.Addr().String(),
		forward: &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport:     transport,
			FlushInterval: -1, // watches
			// A client that stops ends its watches in the middle of an answer. What fails otherwise is in the recorded code.
			ErrorLog: log.New(io.Discard, "", 0),
		},
		served:     make(chan struct{}),
		createdFor: map[string]string{},
	}
	p.recorded.L = &p.mu
	p.server = http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: readHeaderTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(p.served)
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.fail(fmt.Errorf("serving the proxy: %w", err))
		}
	}()
	return p, nil
}

// Take returns what was recorded since it was last called, in the order in which it began: all that was answered, at least. The
// error is of a request that could not be read; then the record is not complete.
func (p *Proxy) Take() ([]Request, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.recording > 0 {
		p.recorded.Wait()
	}
	requests := p.requests
	p.requests = nil
	slices.SortFunc(requests, func(a, b Request) int { return cmp.Compare(a.Began, b.Began) })
	return requests, p.err
}

// Close cuts all connections and returns when nothing is served any more.
func (p *Proxy) Close() error {
	err := p.server.Close()
	<-p.served
	return err
}

func (p *Proxy) serve(w http.ResponseWriter, req *http.Request) {
	info, err := requestInfos.NewRequestInfo(req)
	if err != nil {
		p.fail(fmt.Errorf("reading request %s %s: %w", req.Method, req.URL.Path, err))
	}
	if err != nil || !counts(info) {
		p.forward.ServeHTTP(w, req)
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the client has gone
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	request := Request{
		Verb: info.Verb, Resource: resource(info), Body: body,
		Method: req.Method, URI: req.URL.RequestURI(), ContentType: req.Header.Get("Content-Type"), Accept: req.Header.Get("Accept"),
		Began: p.places.Add(1),
	}
	answer := &answer{ResponseWriter: w, proxy: p, code: http.StatusOK}
	defer answer.done() // also where its client has gone in the midst of it
	p.forward.ServeHTTP(answer, req)
	request.Code, request.Answered = answer.code, answer.place
	if err := request.tell(info, answer.body.Bytes()); err != nil {
		p.fail(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attribute(&request)
	p.requests = append(p.requests, request)
}

// attribute what tells no more whose it is: it was created for that object.
func (p *Proxy) attribute(r *Request) {
	switch {
	case r.target == "":
	case r.Object == "":
		r.Object = p.createdFor[r.target]
	case r.Verb == "create":
		p.createdFor[r.target] = r.Object
	}
}

func (p *Proxy) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = errors.Join(p.err, err)
}

// answer remembers what it was, and its place.
type answer struct {
	http.ResponseWriter
	proxy *Proxy
	code  int
	place int64
	body  bytes.Buffer
}

// WriteHeader comes before anything reaches the client: what the client sends because of it has a later place.
func (a *answer) WriteHeader(code int) {
	if a.place == 0 {
		a.proxy.mu.Lock()
		a.proxy.recording++
		a.proxy.mu.Unlock()
	}
	a.code, a.place = code, a.proxy.places.Add(1)
	a.ResponseWriter.WriteHeader(code)
}

func (a *answer) done() {
	if a.place == 0 {
		return
	}
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	a.proxy.recording--
	a.proxy.recorded.Broadcast()
}

func (a *answer) Write(content []byte) (int, error) {
	a.body.Write(content)
	return a.ResponseWriter.Write(content)
}

// Unwrap lets http.ResponseController flush.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
