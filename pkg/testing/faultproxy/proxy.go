// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

const loopback = "127.0.0.1"

// The port is taken from this range, which is below those that operating systems take ports of outgoing connections from: while
// connections are refused, nobody else may get it.
const firstPort, lastPort = 20000, 26000

// Proxy is the way of one process to an API server.
type Proxy struct {
	name        string
	journal     *Journal
	road        *road
	address     string
	token       string
	authority   []byte // PEM
	certificate tls.Certificate
	transport   *http.Transport
	forward     *httputil.ReverseProxy
	// upgrade forwards requests for another protocol than HTTP, such as those of commands in containers, which HTTP/2 does not know.
	upgradeTransport *http.Transport
	upgrade          *httputil.ReverseProxy

	mu       sync.Mutex
	closed   bool
	server   *http.Server  // nil while connections are refused
	serving  chan struct{} // closed when the server takes no more connections
	faults   []*fault
	watches  map[*Entry]context.CancelFunc // those that are open
	handlers sync.WaitGroup
}

// Start starts a proxy in front of the API server of the configuration, whose credentials it uses. It works until it is closed.
// The name tells its requests from those of other proxies in the journal.
func Start(name string, upstream *rest.Config, journal *Journal) (*Proxy, error) {
	p := &Proxy{name: name, journal: journal, road: newRoad(), token: rand.Text(), watches: map[*Entry]context.CancelFunc{}}
	if err := p.connect(upstream); err != nil {
		return nil, fmt.Errorf("preparing to pass on requests to %s: %w", upstream.Host, err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(loopback, []net.IP{net.ParseIP(loopback)}, nil)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	if p.certificate, err = tls.X509KeyPair(certificate, key); err != nil {
		return nil, fmt.Errorf("reading the new certificate: %w", err)
	}
	p.authority = certificate // with that of its authority, which signed it
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.startServing(); err != nil {
		return nil, err
	}
	return p, nil
}

// connect prepares the side of the API server.
func (p *Proxy) connect(upstream *rest.Config) error {
	target, _, err := rest.DefaultServerUrlFor(upstream)
	if err != nil {
		return err
	}
	tlsConfig, err := rest.TLSConfigFor(upstream)
	if err != nil {
		return err
	}
	// Not one of client-go's: they are shared, and stay.
	p.transport = &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, DisableCompression: true}
	if p.forward, err = p.forwarder(upstream, target, p.transport); err != nil {
		return err
	}
	p.upgradeTransport = &http.Transport{TLSClientConfig: tlsConfig.Clone(), DisableCompression: true}
	p.upgradeTransport.TLSClientConfig.NextProtos = nil
	p.upgrade, err = p.forwarder(upstream, target, p.upgradeTransport)
	return err
}

// forwarder passes requests on by the transport.
func (p *Proxy) forwarder(upstream *rest.Config, target *url.URL, transport http.RoundTripper) (*httputil.ReverseProxy, error) {
	authenticated, err := rest.HTTPWrappersForConfig(upstream, transport)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Transport: authenticated,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
			r.Out.Header.Del("Authorization") // it is for us
		},
		FlushInterval: -1, // watch events are not to wait for others
		ModifyResponse: func(resp *http.Response) error {
			p.journal.answered(entryOf(resp.Request.Context()), resp.StatusCode, false)
			return nil
		},
		// An API server that is gone answers nothing.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}, nil
}

// WriteKubeconfig writes a kubeconfig, readable by the user only, by which a process reaches the API server through this proxy.
func (p *Proxy) WriteKubeconfig(path string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: "https://" + p.address, CertificateAuthorityData: p.authority}
	config.AuthInfos["proxy"] = &clientcmdapi.AuthInfo{Token: p.token}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "proxy"}
	config.CurrentContext = "proxy"
	return clientcmd.WriteToFile(*config, path)
}

// Close breaks all connections and returns when nothing of the proxy is left.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.stopServing()
	p.mu.Unlock()
	p.handlers.Wait()
	p.transport.CloseIdleConnections()
	p.upgradeTransport.CloseIdleConnections()
}

// startServing is called under the lock.
func (p *Proxy) startServing() error {
	if p.server != nil || p.closed {
		return nil
	}
	l, err := p.listen()
	if err != nil {
		return fmt.Errorf("listening for a process: %w", err)
	}
	p.address = l.Addr().String()
	server := &http.Server{
		Handler:   http.HandlerFunc(p.serve),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{p.certificate}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0), // of handshakes that we break off
	}
	serving := make(chan struct{})
	p.server, p.serving = server, serving
	go func() {
		defer close(serving)
		_ = server.ServeTLS(listener{Listener: l, road: p.road}, "", "") // it ends when the server is closed
	}()
	return nil
}

// stopServing is called under the lock.
func (p *Proxy) stopServing() {
	if p.server == nil {
		return
	}
	_ = p.server.Close() // only the listener can fail, and it is closed all the same
	<-p.serving          // from here on there are no new connections
	p.road.abort()
	p.server = nil
}

// listen takes the port that we had, or any one the first time.
func (p *Proxy) listen() (net.Listener, error) {
	if p.address != "" {
		return net.Listen("tcp", p.address)
	}
	for {
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(firstPort+mathrand.IntN(lastPort-firstPort))))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
}

type entryKey struct{}

func entryOf(ctx context.Context) *Entry { return ctx.Value(entryKey{}).(*Entry) }

// serve answers one request.
func (p *Proxy) serve(w http.ResponseWriter, req *http.Request) {
	if !p.enter() {
		panic(http.ErrAbortHandler)
	}
	defer p.handlers.Done()
	if req.Header.Get("Authorization") != "Bearer "+p.token {
		writeStatus(w, apierrors.NewUnauthorized("the token is not the one in the proxy's kubeconfig"))
		return
	}
	if err := readBody(req); err != nil {
		panic(http.ErrAbortHandler)
	}
	r, err := parseRequest(p.name, req)
	if err != nil {
		writeStatus(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	entry := p.journal.add(r)
	if f := p.faultFor(r); f != nil && f.with == nil {
		<-req.Context().Done()
		panic(http.ErrAbortHandler)
	} else if f != nil {
		p.journal.answered(entry, int(f.with.Status().Code), true)
		writeStatus(w, f.with)
		return
	}
	ctx, cancel := context.WithCancel(context.WithValue(req.Context(), entryKey{}, entry))
	defer cancel()
	if r.Verb == "watch" {
		p.mu.Lock()
		p.watches[entry] = cancel
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.watches, entry)
		}()
	}
	forward := p.forward
	if req.Header.Get("Upgrade") != "" {
		forward = p.upgrade
	}
	forward.ServeHTTP(w, req.WithContext(ctx))
}

// readBody takes in all of the body before anything is passed on. A server may answer before it has read the body, as with a 403; a
// client then sends no more of it, and httputil.ReverseProxy would wait for the rest for ever.
func readBody(req *http.Request) error {
	if req.Body == nil || req.Header.Get("Upgrade") != "" {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(body) == 0 {
		req.Body = http.NoBody
	}
	return err
}

// enter counts a request, unless the proxy is closed.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.handlers.Add(1)
	return true
}
