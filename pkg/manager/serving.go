// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/klog/v2"
)

const (
	// readHeaderTimeout keeps slow clients from occupying the server.
	readHeaderTimeout = 10 * time.Second
	// servingShutdownTimeout is how long answers under way may take when the process ends.
	servingShutdownTimeout = time.Second
)

// server answers HTTP requests on one address.
type server struct {
	listener net.Listener
	http     http.Server
	ended    chan struct{} // nil until it is started
}

// listen is called before anything else is started, so that an address in use is the first and only error that a user reads. The
// flag is the one that has set the address. Without an address it returns nil.
func listen(ctx context.Context, flag, address string) (*server, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another process serves on %s: choose another address with %s (port 0 takes a free one, \"\" serves nothing)", address, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("serving on %s, which %s sets: %w", address, flag, err)
	}
	return &server{listener: listener}, nil
}

// start serves until stop, by TLS if there is a configuration for it. fail is called if serving ends before it should.
func (s *server) start(ctx context.Context, what string, handler http.Handler, tlsConfig *tls.Config, fail func(error)) {
	if s == nil {
		return
	}
	s.http = http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout, TLSConfig: tlsConfig, ErrorLog: quiet(ctx)}
	s.ended = make(chan struct{})
	klog.FromContext(ctx).Info("Serving "+what, "address", s.listener.Addr())
	go func() {
		defer close(s.ended)
		serve := s.http.Serve
		if tlsConfig != nil {
			serve = func(listener net.Listener) error { return s.http.ServeTLS(listener, "", "") }
		}
		if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("serving %s on %s: %w", what, s.listener.Addr(), err))
		}
	}()
}

// quiet logs errors of single connections, which their clients cause: for example the TLS handshake of a scanner.
func quiet(ctx context.Context) *log.Logger {
	const verbosity = 3
	return slog.NewLogLogger(logr.ToSlogHandler(klog.FromContext(ctx)), slog.Level(-verbosity))
}

// healthHandler answers /healthz, /livez and /readyz. live is asked at the first two, live and ready at the last.
func healthHandler(live, ready []healthz.HealthChecker) *http.ServeMux {
	mux := http.NewServeMux()
	live = append([]healthz.HealthChecker{healthz.PingHealthz}, live...)
	healthz.InstallHandler(mux, live...)
	healthz.InstallLivezHandler(mux, live...)
	healthz.InstallReadyzHandler(mux, append(live, ready...)...)
	return mux
}

// stop returns when nothing is served any more.
func (s *server) stop(ctx context.Context) {
	if s == nil {
		return
	}
	if s.ended == nil {
		_ = s.listener.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), servingShutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // ends answers that take longer
	}
	<-s.ended
}
