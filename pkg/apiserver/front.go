// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 the HTTP/2 of net/http serves no connections but those of crypto/tls, that of x/net serves ours too

package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/http2"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/addresslimit"
)

const (
	// idleTimeout is that of client-go: neither side closes first.
	idleTimeout = 90 * time.Second
	// readHeaderTimeout keeps slow clients from occupying the server.
	readHeaderTimeout = 10 * time.Second
	// closingTimeout is how long connections may take to end when all requests have ended. A GOAWAY takes one second.
	closingTimeout = 2 * time.Second
)

// maxConnections is how many connections the clients of one address have at a time. Those of kube-apiserver do not count.
const maxConnections = 128

// limits are what a connection of HTTP/2 may make the server buffer, in bytes but for streams: for each stream the upload buffer while its request is
// answered, for each stream its header, and for the connection one frame.
type limits struct {
	streams, uploadBuffer, frame, header int
}

// proxyLimits are for kube-apiserver, which sends the requests of many clients over one connection. The buffer holds nearly every object in one frame.
// The header is what kube-apiserver takes, and so may pass on.
func proxyLimits(streams int) limits {
	return limits{streams: streams, uploadBuffer: 256 << 10, frame: 256 << 10, header: 1 << 20}
}

// directLimits are for clients that connect directly. The server does not know them before their first request, and most it never knows.
func directLimits(streams int) limits {
	return limits{streams: min(64, streams), uploadBuffer: 64 << 10, frame: 16 << 10, header: 128 << 10}
}

// server has the timeouts of the front, and these limits.
func (l limits) server(ctx context.Context) *http.Server {
	return &http.Server{
		IdleTimeout: idleTimeout, ReadHeaderTimeout: readHeaderTimeout, MaxHeaderBytes: l.header, ErrorLog: quiet(ctx),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: l.streams, MaxReadFrameSize: l.frame, MaxReceiveBufferPerStream: l.uploadBuffer,
			MaxReceiveBufferPerConnection: l.uploadBuffer * l.streams,
		},
	}
}

// front is what clients connect to. The generic server has one too, but no place for what connections need in order to move.
type front struct {
	listener net.Listener
	http     *http.Server
	ended    chan struct{}
}

// newFront serves by the certificates and limits of the generic server's configuration, as soon as it is started.
func newFront(ctx context.Context, config *genericapiserver.SecureServingInfo, certificates *dynamicTLS, handler http.Handler, move *mover,
	from *peers) (*front, error) {
	passedOn, direct := proxyLimits(config.HTTP2MaxStreamsPerConnection).server(ctx), directLimits(config.HTTP2MaxStreamsPerConnection).server(ctx)
	served := direct
	if config.DisableHTTP2 {
		served = passedOn // whose headers come by HTTP/1 then
	}
	served.Handler, served.TLSConfig, served.ConnContext = move.handler(handler), certificates.config, from.context
	f := &front{http: served, ended: make(chan struct{}), listener: addresslimit.NewListener(config.Listener, maxConnections, func(address net.Addr) {
		klog.FromContext(ctx).V(2).Info("Closed the oldest connection of an address that has too many", "address", address, "limit", maxConnections)
	})}
	if config.DisableHTTP2 {
		f.http.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
		return f, nil
	}
	multiplexed := &http2.Server{}
	if err := http2.ConfigureServer(f.http, multiplexed); err != nil {
		return nil, fmt.Errorf("setting up HTTP/2: %w", err)
	}
	f.http.TLSNextProto[http2.NextProtoTLS] = func(_ *http.Server, connection *tls.Conn, handler http.Handler) {
		taken := move.take(connection)
		defer move.release(taken)
		base, limited := contextOf(handler), direct
		if !isDirect(base) {
			limited = passedOn
		}
		multiplexed.ServeConn(taken, &http2.ServeConnOpts{Context: base, Handler: handler, BaseConfig: limited})
	}
	return f, nil
}

// contextOf the connection that net/http hands over with its handler.
func contextOf(handler http.Handler) context.Context {
	if with, ok := handler.(interface{ BaseContext() context.Context }); ok {
		return with.BaseContext()
	}
	return context.Background()
}

// start serving. fail is called if that ends before it should.
func (f *front) start(fail func(error)) {
	go func() {
		defer close(f.ended)
		if err := f.http.ServeTLS(f.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("serving on %s: %w", f.listener.Addr(), err))
		}
	}()
}

// stop when all requests have ended. It is called after start.
func (f *front) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), closingTimeout)
	defer cancel()
	if err := f.http.Shutdown(ctx); err != nil {
		_ = f.http.Close()
	}
	<-f.ended
}

// quiet logs what goes wrong with single connections, which their clients cause: for example the TLS handshake of a scanner.
func quiet(ctx context.Context) *log.Logger {
	const verbosity = 3
	return slog.NewLogLogger(logr.ToSlogHandler(klog.FromContext(ctx)), slog.Level(-verbosity))
}

// silentListener is the listener of the generic server: it has the address, and no connections.
type silentListener struct {
	address net.Addr
	closed  chan struct{}
}

func newSilentListener(address net.Addr) *silentListener {
	return &silentListener{address, make(chan struct{})}
}

// Accept returns when the listener is closed.
func (s *silentListener) Accept() (net.Conn, error) {
	<-s.closed
	return nil, net.ErrClosed
}

// Close is called once, by the server that listens.
func (s *silentListener) Close() error {
	close(s.closed)
	return nil
}

// Addr is the address that the server is known by.
func (s *silentListener) Addr() net.Addr { return s.address }
