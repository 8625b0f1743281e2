// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

const (
	// readHeaderTimeout keeps slow clients from occupying the server.
	readHeaderTimeout = 10 * time.Second
	// servingShutdownTimeout is how long answers under way may take when the process ends.
	servingShutdownTimeout = time.Second
)

// server answers /metrics, /healthz, /livez and /readyz.
type server struct {
	listener net.Listener
	http     http.Server
	ended    chan struct{} // nil until it is started
}

// listen before anything else is started, so that an address in use is the first and only thing that a user reads.
// Without an address there is no server: it is nil.
func listen(ctx context.Context, address string) (*server, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another process serves on %s: choose another address by --serving-address (port 0 takes a free one, \"\" serves nothing)", address)
	}
	if err != nil {
		return nil, fmt.Errorf("serving metrics and health on %s, which --serving-address sets: %w", address, err)
	}
	return &server{listener: listener}, nil
}

// start serves until stop. live is asked at /livez and /healthz, live and ready at /readyz. fail is called if serving ends
// before it should.
func (s *server) start(ctx context.Context, live, ready []healthz.HealthChecker, fail func(error)) {
	if s == nil {
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", legacyregistry.Handler())
	live = append([]healthz.HealthChecker{healthz.PingHealthz}, live...)
	healthz.InstallHandler(mux, live...)
	healthz.InstallLivezHandler(mux, live...)
	healthz.InstallReadyzHandler(mux, append(live, ready...)...)
	s.http = http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}
	s.ended = make(chan struct{})
	klog.FromContext(ctx).Info("Serving /metrics, /healthz, /livez and /readyz", "address", s.listener.Addr())
	go func() {
		defer close(s.ended)
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("serving metrics and health on %s: %w", s.listener.Addr(), err))
		}
	}()
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
		_ = s.http.Close() // answers that take longer are cut off
	}
	<-s.ended
}
