// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// flushTimeout is how long the last events may take to be posted. The Lease is released after that: a handover within a second is
// more important than the last events.
const flushTimeout = 500 * time.Millisecond

// Run runs the controllers until ctx ends, then lets them finish their syncs, releases the Lease and returns nil.
// It returns an error if something cannot be set up, or if controllers do not end within the shutdown timeout; then they
// still run, the Lease is left to expire, and the process has to end.
func Run(ctx context.Context, config *Config) error {
	logger := klog.FromContext(ctx)
	config.cluster.Log(logger)
	logger.Info("Starting", "version", config.Version, "apiServer", config.cluster.Config.Host, "controllers", names(config.Controllers),
		"workers", config.Workers, "namespace", cmp.Or(config.Namespace, "(all)"))
	recordVersion(config.Version)

	server, err := listen(ctx, "--serving-address", config.ServingAddress)
	if err != nil {
		return err
	}
	defer server.stop(ctx)
	secure, err := newMetricsServing(ctx, config.SecureMetrics, config.reviewClient, legacyregistry.Handler())
	if err != nil {
		return err
	}
	defer secure.stop(ctx)

	// working ends when the process is asked to stop or cannot continue. What the controllers need in order to finish lives longer.
	working, stopWorking := context.WithCancelCause(ctx)
	defer stopWorking(nil)
	fail := func(err error) { stopWorking(failure{err}) }
	supporting, stopSupporting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSupporting()

	leadership, err := newLeadership(ctx, config, func(reason error) {
		logger.Error(reason, "Lost the Lease, exiting immediately: another process may lead now")
		config.exit(1)
		fail(fmt.Errorf("lost the Lease: %w", reason)) // in tests exit returns
	}, func(reason error) {
		logger.Error(reason, "All caches are newer than the API server, exiting immediately: a new process reads everything again")
		config.exit(1)
		fail(reason)
	})
	if err != nil {
		return err
	}
	shared, err := newShared(supporting, config, leadership.mayWrite)
	if err != nil {
		return err
	}
	controllers := newGroup(config.Controllers, shared)

	live := append(leadership.checks(), controllers.syncChecks()...)
	ready := append(controllers.checks(), healthz.NamedCheck("watches", config.clients.checkWatches), healthz.NewShutdownHealthz(working.Done()))
	mux, serving := healthHandler(live, ready), "/healthz, /livez and /readyz"
	if secure == nil {
		mux.Handle("/metrics", legacyregistry.Handler())
		serving = "/metrics, " + serving
	}
	server.start(ctx, serving, mux, nil, fail)
	secure.start(ctx, fail)
	leadership.start(ctx)
	controllers.start(working, supporting, leadership.awaited(), config.Workers, fail)

	<-working.Done()
	logger.Info("Stopping", "reason", context.Cause(working))
	if hanging := controllers.join(ctx, config.ShutdownTimeout); len(hanging) > 0 {
		// The Lease is left to expire: they may still write.
		return fmt.Errorf("these controllers have not stopped within %s: %s", config.ShutdownTimeout, strings.Join(hanging, ", "))
	}
	shared.flushEvents(ctx, flushTimeout)
	stopSupporting()
	shared.joinInformers(ctx)
	leadership.stop(ctx)

	var failed failure
	if errors.As(context.Cause(working), &failed) {
		return failed.error
	}
	logger.Info("Stopped")
	return nil
}

// failure is why working ended without being asked to.
type failure struct{ error }

// flushEvents posts the last events of the controllers.
func (s *shared) flushEvents(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := s.events.Flush(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Some events are lost")
	}
}
