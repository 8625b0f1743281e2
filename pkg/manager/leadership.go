// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// watchdogTolerance is how long after its Lease has expired a leader that still runs is reported as unhealthy.
const watchdogTolerance = 20 * time.Second

// LeaderElection is how one of several processes becomes the leader. All of them need the same configuration.
type LeaderElection struct {
	// Namespace and Name of the Lease.
	Namespace, Name string
	// Identity of this process in the Lease; "" for the name of the host and a random part. Two processes with one identity would both lead.
	Identity string
	// LeaseDuration is how long the others wait for a renewal before they take over, in whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is when a leader ends that could not renew. It is shorter than LeaseDuration.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between two renewals.
	RetryPeriod time.Duration
}

// leadership campaigns for the Lease and renews it. It still leads when the process is asked to stop, until stop is called after
// the last write. A nil leadership is that of a process without leader election, which always leads.
type leadership struct {
	config   LeaderElection
	lease    *lease
	watchdog *leaderelection.HealthzAdaptor
	// informers watch the one Lease.
	informers informers.SharedInformerFactory

	elected chan struct{} // closed when we become the leader
	running sync.WaitGroup
	cancel  context.CancelFunc

	mu      sync.Mutex
	restart context.CancelFunc // of the attempt under way
}

// newLeadership prepares to lead. onLost is called when the Lease is lost, and onBackwards when the API server's store was replaced by an
// older one; both are to end the process.
func newLeadership(ctx context.Context, c *Config, onLost, onBackwards func(error)) (*leadership, error) {
	if c.LeaderElection == nil {
		return nil, nil
	}
	config := *c.LeaderElection
	identity, err := config.identity()
	if err != nil {
		return nil, err
	}
	// A request that hangs must leave time for another one before the deadline.
	client, err := c.clients.electionClient(max(time.Second, config.RenewDeadline/2))
	if err != nil {
		return nil, err
	}
	l := &leadership{
		config:   config,
		watchdog: leaderelection.NewLeaderHealthzAdaptor(watchdogTolerance),
		elected:  make(chan struct{}),
	}
	l.lease = &lease{
		LeaseLock: resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: config.Namespace, Name: config.Name},
			Client:     &leaseVersions{LeasesGetter: client, onBackwards: onBackwards},
			Labels:     leaseLabels(c.Controllers, c.Namespace),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		logger:        klog.FromContext(ctx),
		renewDeadline: config.RenewDeadline,
		onFree:        l.tryNow,
		onElected: func() {
			klog.FromContext(ctx).Info("Became the leader", "lease", l.lease.Describe())
			close(l.elected)
		},
		onLost: onLost,
	}
	kubeClient, err := c.clients.optionalClient("leader-election", l.lease.mayWrite)
	if err != nil {
		return nil, err
	}
	if err := l.prepareWatch(kubeClient); err != nil {
		return nil, err
	}
	_, err = l.newElector()
	return l, err
}

// identity returns that of this process. Two processes on one host need different ones.
func (e *LeaderElection) identity() (string, error) {
	if e.Identity != "" {
		return e.Identity, nil
	}
	hostname, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("reading the host name, for the identity of this process in the leader election: %w; set --leader-elect-identity", err)
	}
	return hostname + "_" + string(uuid.NewUUID()), nil
}

// awaited returns a channel that is closed when this process leads.
func (l *leadership) awaited() <-chan struct{} {
	if l == nil {
		always := make(chan struct{})
		close(always)
		return always
	}
	return l.elected
}

// mayWrite returns why this process must not write, nil if it may.
func (l *leadership) mayWrite() error {
	if l == nil {
		return nil
	}
	return l.lease.mayWrite()
}

// checks report whether a process that leads still renews.
func (l *leadership) checks() []healthz.HealthChecker {
	if l == nil {
		return nil
	}
	return []healthz.HealthChecker{l.watchdog}
}

// start campaigns until stop is called, also when ctx ends before.
func (l *leadership) start(ctx context.Context) {
	if l == nil {
		return
	}
	klog.FromContext(ctx).Info("Joined the leader election", "lease", l.lease.Describe(), "identity", l.lease.Identity())
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.running.Go(func() { l.campaign(ctx) })
	l.running.Go(func() { l.watch(ctx) })
}

// stop ends the campaign or the renewals, and releases the Lease if we have it.
func (l *leadership) stop(ctx context.Context) {
	if l == nil {
		return
	}
	l.cancel()
	l.running.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.config.RenewDeadline)
	defer cancel()
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "lease", l.lease.Describe())
	released, err := l.lease.release(ctx)
	switch {
	case apierrors.IsConflict(err):
		logger.Info("Another process has written the Lease since the last renewal, not releasing it")
	case err != nil:
		logger.Error(err, "Failed to release the Lease; the next leader has to wait until it expires", "leaseDuration", l.config.LeaseDuration)
	case released:
		logger.Info("Released the Lease")
	}
}

// campaign makes attempts until the context ends or the Lease is lost. Most campaigns are a single attempt.
func (l *leadership) campaign(ctx context.Context) {
	// The lease logs all problems. The elector's own log lines are for debugging.
	if !klog.FromContext(ctx).V(4).Enabled() {
		ctx = klog.NewContext(ctx, klog.Logger{})
	}
	for ctx.Err() == nil && l.lease.isLost() == nil {
		l.attempt(ctx)
	}
}

// attempt is the run of an elector, which takes the Lease if it is free and polls it if it is not. It ends when tryNow
// asks for another attempt, when the context ends, or when the Lease could not be renewed.
func (l *leadership) attempt(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	elector, err := l.newElector()
	if err != nil {
		panic(err) // newLeadership has made the same one
	}
	l.watchdog.SetLeaderElection(elector)
	l.mu.Lock()
	l.restart = cancel
	l.mu.Unlock()
	elector.Run(ctx)
}

// tryNow begins a new attempt, which does not wait for the elector's next poll. It must not be called while we lead.
func (l *leadership) tryNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.restart != nil {
		l.restart()
	}
}

func (l *leadership) newElector() (*leaderelection.LeaderElector, error) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          l.config.Name,
		Lock:          l.lease,
		LeaseDuration: l.config.LeaseDuration,
		RenewDeadline: l.config.RenewDeadline,
		RetryPeriod:   l.config.RetryPeriod,
		WatchDog:      l.watchdog,
		// It would release as soon as it is stopped. We do it in stop.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			// The lease reports when it is ours, without a goroutine between.
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the leader election: %w", err)
	}
	return elector, nil
}
