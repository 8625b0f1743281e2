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
)

const (
	// idleTimeout is that of client-go: neither side closes first.
	idleTimeout = 90 * time.Second
	// readHeaderTimeout keeps slow clients from occupying the server.
	readHeaderTimeout = 10 * time.Second
	// maxHeaderBytes is what kube-apiserver takes, and so may pass on.
	maxHeaderBytes = 1 << 20
	// uploadBuffer holds nearly every object in one frame.
	uploadBuffer = 256 << 10
	// closingTimeout is how long connections may take to end when all requests have ended. A GOAWAY takes one second.
	closingTimeout = 2 * time.Second
)

// front is what clients connect to. The generic server has one too, but no place for what connections need in order to move.
type front struct {
	listener net.Listener
	http     *http.Server
	ended    chan struct{}
}

// newFront serves by the certificates and limits of the generic server's configuration, as soon as it is started.
func newFront(ctx context.Context, config *genericapiserver.SecureServingInfo, certificates *dynamicTLS, handler http.Handler, move *mover) (*front, error) {
	f := &front{listener: config.Listener, ended: make(chan struct{}), http: &http.Server{
		Handler: move.handler(handler), TLSConfig: certificates.config, ErrorLog: quiet(ctx),
		IdleTimeout: idleTimeout, ReadHeaderTimeout: readHeaderTimeout, MaxHeaderBytes: maxHeaderBytes,
	}}
	if config.DisableHTTP2 {
		f.http.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
		return f, nil
	}
	streams := config.HTTP2MaxStreamsPerConnection
	f.http.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: streams, MaxReadFrameSize: uploadBuffer, MaxReceiveBufferPerStream: uploadBuffer,
		MaxReceiveBufferPerConnection: uploadBuffer * streams,
	}
	multiplexed := &http2.Server{}
	if err := http2.ConfigureServer(f.http, multiplexed); err != nil {
		return nil, fmt.Errorf("setting up HTTP/2: %w", err)
	}
	f.http.TLSNextProto[http2.NextProtoTLS] = func(server *http.Server, connection *tls.Conn, handler http.Handler) {
		taken := move.take(connection)
		defer move.release(taken)
		multiplexed.ServeConn(taken, &http2.ServeConnOpts{Context: contextOf(handler), Handler: handler, BaseConfig: server})
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
