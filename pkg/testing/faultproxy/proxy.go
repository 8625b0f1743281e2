// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"millwright.dev/pkg/testing/portrange"
)

// proxyPorts are those of proxies, which refuse connections for a while.
var proxyPorts = portrange.Range{First: 20000, Limit: 26000}

// Proxy connects one process to an API server.
type Proxy struct {
	name      string
	journal   *Journal
	link      *link
	port      *portrange.Reservation
	token     string
	cert      *servingCert
	transport *http.Transport
	forward   *httputil.ReverseProxy
	// upgrade forwards requests that upgrade to another protocol, such as kubectl exec. HTTP/2 has no upgrades.
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

// Start starts a proxy in front of the API server of the configuration, and uses its credentials. The proxy works until Close. The name
// identifies its requests in a journal that several proxies share.
func Start(name string, upstream *rest.Config, journal *Journal) (*Proxy, error) {
	p := &Proxy{name: name, journal: journal, link: newLink(), token: rand.Text(), watches: map[*Entry]context.CancelFunc{}}
	if err := p.connect(upstream); err != nil {
		return nil, fmt.Errorf("preparing to pass on requests to %s: %w", upstream.Host, err)
	}
	var err error
	if p.cert, err = newServingCert(); err != nil {
		return nil, err
	}
	if p.port, err = proxyPorts.Reserve(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.startServing(); err != nil {
		p.port.Release()
		return nil, err
	}
	return p, nil
}

// servingCert is what a proxy proves its address with.
type servingCert struct {
	tls.Certificate
	authority []byte // PEM
}

// newServingCert makes the certificate of all proxies of the process: RSA keys take longer than all else that a proxy does to start.
var newServingCert = sync.OnceValues(func() (*servingCert, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey(portrange.Loopback, []net.IP{net.ParseIP(portrange.Loopback)}, nil)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading the new certificate: %w", err)
	}
	return &servingCert{pair, certificate}, nil // with that of its authority, which signed it
})

// connect makes the transports to the API server.
func (p *Proxy) connect(upstream *rest.Config) error {
	target, _, err := rest.DefaultServerUrlFor(upstream)
	if err != nil {
		return err
	}
	tlsConfig, err := rest.TLSConfigFor(upstream)
	if err != nil {
		return err
	}
	// Not a transport of client-go: those are shared and never closed.
	p.transport = &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, DisableCompression: true}
	if p.forward, err = p.forwarder(upstream, target, p.transport); err != nil {
		return err
	}
	p.upgradeTransport = &http.Transport{TLSClientConfig: tlsConfig.Clone(), DisableCompression: true}
	p.upgradeTransport.TLSClientConfig.NextProtos = nil
	p.upgrade, err = p.forwarder(upstream, target, p.upgradeTransport)
	return err
}

// forwarder returns a handler that forwards requests by the transport.
func (p *Proxy) forwarder(upstream *rest.Config, target *url.URL, transport http.RoundTripper) (*httputil.ReverseProxy, error) {
	authenticated, err := rest.HTTPWrappersForConfig(upstream, transport)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Transport: authenticated,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
			r.Out.Header.Del("Authorization") // the token is for the proxy
		},
		FlushInterval: -1, // sends each watch event immediately
		ModifyResponse: func(resp *http.Response) error {
			p.journal.answered(entryOf(resp.Request.Context()), resp.StatusCode, false)
			return nil
		},
		// A client gets no answer from an API server that cannot be reached.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}, nil
}

// WriteKubeconfig writes a kubeconfig for access through this proxy. Only the user can read the file.
func (p *Proxy) WriteKubeconfig(path string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: "https://" + p.port.Address(), CertificateAuthorityData: p.cert.authority}
	config.AuthInfos["proxy"] = &clientcmdapi.AuthInfo{Token: p.token}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "proxy"}
	config.CurrentContext = "proxy"
	return clientcmd.WriteToFile(*config, path)
}

// Close breaks all connections and returns when all goroutines of the proxy have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.stopServing()
	p.port.Release()
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
	l, err := net.Listen("tcp", p.port.Address())
	if err != nil {
		return fmt.Errorf("listening for a process: %w", err)
	}
	server := &http.Server{
		Handler:   http.HandlerFunc(p.serve),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{p.cert.Certificate}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0), // stopServing breaks handshakes
	}
	serving := make(chan struct{})
	p.server, p.serving = server, serving
	go func() {
		defer close(serving)
		_ = server.ServeTLS(listener{Listener: l, link: p.link}, "", "") // ends when the server is closed
	}()
	return nil
}

// stopServing is called under the lock.
func (p *Proxy) stopServing() {
	if p.server == nil {
		return
	}
	_ = p.server.Close() // the listener is closed even if this fails
	<-p.serving          // no new connections from here on
	p.link.abort()
	p.server = nil
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

// readBody reads the whole body before the request is forwarded. A server may answer before it has read the body, for example with 403.
// The client then stops sending, and httputil.ReverseProxy would wait forever for the rest.
func readBody(req *http.Request) error {
	if req.Body == nil || req.Header.Get("Upgrade") != "" {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return err
}

// enter counts a request. It returns false if the proxy is closed.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.handlers.Add(1)
	return true
}
