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
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/http2"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/addresslimit"
)

const (
	// closingTimeout is how long connections may take to end when all requests have ended. A GOAWAY takes one second.
	closingTimeout = 2 * time.Second
	// acceptInterval is the time between attempts to accept while the process has too many open files.
	acceptInterval = 100 * time.Millisecond
)

// connectionLimits are for connections of clients that connect directly. Those of kube-apiserver do not count. They are far more than probes and
// Prometheus need: with the limits of each connection, they bound the memory of clients that the server does not know.
var connectionLimits = addresslimit.Connections{OfAddress: 32, Total: 128}

// front is what clients connect to. The generic server has one too, but no place for what connections need in order to move.
//
// It has two servers. Each connection gets the one for its peer after the TLS handshake.
type front struct {
	listener         net.Listener
	tls              *tls.Config
	proxies          *frontProxies
	passedOn, direct *frontServer
	// handshakes ends those that have begun.
	handshakes context.Context
	cancel     context.CancelFunc
	running    sync.WaitGroup
}

// frontServer serves the connections that are handed to it.
type frontServer struct {
	*http.Server
	connections *handedListener
}

// newFront serves by the certificates and limits of the generic server's configuration, as soon as it is started. passedOn is for requests of
// kube-apiserver, and direct for those of clients that connect directly.
func newFront(ctx context.Context, config *genericapiserver.SecureServingInfo, certificates *dynamicTLS, move *mover, proxies *frontProxies,
	passedOn, direct *http.Server) (*front, error) {
	listener := addresslimit.NewListener(config.Listener, connectionLimits, func(address net.Addr) {
		klog.FromContext(ctx).V(2).Info("Closed an older connection because clients that connect directly have too many", "address", address,
			"limitOfAddress", connectionLimits.OfAddress, "limit", connectionLimits.Total)
	})
	f := &front{listener: listener, tls: certificates.config, proxies: proxies}
	var err error
	if f.passedOn, err = newFrontServer(ctx, passedOn, config, f.tls, move); err != nil {
		return nil, err
	}
	if f.direct, err = newFrontServer(ctx, direct, config, f.tls, move); err != nil {
		return nil, err
	}
	f.handshakes, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return f, nil
}

// newFrontServer returns a server that can ask its connections to move, and serves HTTP/2.
func newFrontServer(ctx context.Context, server *http.Server, config *genericapiserver.SecureServingInfo, encryption *tls.Config,
	move *mover) (*frontServer, error) {
	server.Handler, server.ErrorLog = move.handler(server.Handler), quiet(ctx)
	of := &frontServer{server, newHandedListener(config.Listener.Addr())}
	if config.DisableHTTP2 {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
		return of, nil
	}
	server.TLSConfig = encryption.Clone() // its cipher suites are checked
	multiplexed := &http2.Server{}
	if err := http2.ConfigureServer(server, multiplexed); err != nil {
		return nil, fmt.Errorf("setting up HTTP/2: %w", err)
	}
	server.TLSNextProto[http2.NextProtoTLS] = func(server *http.Server, connection *tls.Conn, handler http.Handler) {
		taken := move.take(connection)
		defer move.release(taken)
		multiplexed.ServeConn(taken, &http2.ServeConnOpts{Context: contextOf(handler), Handler: handler, BaseConfig: server})
	}
	return of, nil
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
	f.running.Go(func() {
		if err := f.accept(); !errors.Is(err, net.ErrClosed) {
			fail(fmt.Errorf("serving on %s: %w", f.listener.Addr(), err))
		}
	})
	for _, server := range []*frontServer{f.passedOn, f.direct} {
		f.running.Go(func() { _ = server.Serve(server.connections) }) // ends when it is shut down, and not before
	}
}

// accept connections until the listener fails or is closed.
func (f *front) accept() error {
	for {
		connection, err := f.listener.Accept()
		if err == nil {
			f.running.Go(func() { f.handOver(connection) })
			continue
		}
		if passing, ok := err.(interface{ Temporary() bool }); !ok || !passing.Temporary() {
			return err
		}
		time.Sleep(acceptInterval)
	}
}

// handOver chooses the server of a connection.
func (f *front) handOver(connection net.Conn) {
	ctx, cancel := context.WithTimeout(f.handshakes, readHeaderTimeout)
	defer cancel()
	limited := &handshakeConn{Conn: connection, left: maxHandshake}
	encrypted, server := tls.Server(limited, f.tls), f.direct
	if err := encrypted.HandshakeContext(ctx); err == nil { // otherwise its server gets the same error, and handles it
		if state := encrypted.ConnectionState(); f.proxies.has(&state) {
			addresslimit.Exempt(connection)
			server = f.passedOn
		}
	}
	limited.ended = true
	server.connections.hand(encrypted)
}

// stop when all requests have ended. It is called after start.
func (f *front) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), closingTimeout)
	defer cancel()
	_ = f.listener.Close()
	f.cancel()
	for _, server := range []*frontServer{f.passedOn, f.direct} {
		f.running.Go(func() {
			if err := server.Shutdown(ctx); err != nil {
				_ = server.Close()
			}
		})
	}
	f.running.Wait()
}

// quiet logs what goes wrong with single connections, which their clients cause: for example the TLS handshake of a scanner.
func quiet(ctx context.Context) *log.Logger {
	const verbosity = 3
	return slog.NewLogLogger(logr.ToSlogHandler(klog.FromContext(ctx)), slog.Level(-verbosity))
}
