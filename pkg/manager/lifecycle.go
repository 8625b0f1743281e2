// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/controller"
)

// hangingInterval is how often the controllers that have not stopped yet are logged.
const hangingInterval = 3 * time.Second

// group of the controllers of a process. None of them holds up another.
type group struct {
	lives   []*life
	running sync.WaitGroup
}

func newGroup(descriptors []Descriptor, shared *shared) *group {
	g := &group{}
	var building sync.Mutex
	for _, d := range descriptors {
		g.lives = append(g.lives, &life{Descriptor: d, shared: shared, building: &building, waiting: "not started yet"})
	}
	return g
}

// checks report which controllers are ready.
func (g *group) checks() (checks []healthz.HealthChecker) {
	for _, life := range g.lives {
		checks = append(checks, healthz.NamedCheck(life.Name, life.check))
	}
	return checks
}

// syncChecks report which controllers have a sync that does not end.
func (g *group) syncChecks() (checks []healthz.HealthChecker) {
	for _, life := range g.lives {
		checks = append(checks, healthz.NamedCheck("sync-"+life.Name, life.checkSyncs))
	}
	return checks
}

// start starts the life of each controller; fail is called with the error of a controller that cannot be built.
func (g *group) start(ctx, informerCtx context.Context, elected <-chan struct{}, workers int, fail func(error)) {
	for _, life := range g.lives {
		g.running.Go(func() {
			if err := life.run(ctx, informerCtx, elected, workers); err != nil {
				fail(err)
			}
		})
	}
}

// join waits until all have ended, or names those that have not within the timeout.
func (g *group) join(ctx context.Context, timeout time.Duration) (hanging []string) {
	ended := make(chan struct{})
	go func() { g.running.Wait(); close(ended) }()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	ticker := time.NewTicker(hangingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-deadline.C:
			return g.hanging()
		case <-ticker.C:
			klog.FromContext(ctx).Info("Waiting for controllers to finish their syncs", "controllers", g.hanging())
		}
	}
}

func (g *group) hanging() (names []string) {
	for _, life := range g.lives {
		if !life.hasEnded() {
			names = append(names, life.Name)
		}
	}
	return names
}

// life of one controller: it waits for its APIs, is built, fills its caches, waits for leadership, works, and ends.
type life struct {
	Descriptor
	shared *shared
	// building is held by the controller that is being built: informers are shared, and none may be started while
	// another constructor still configures it.
	building *sync.Mutex

	mu      sync.Mutex
	waiting string // what for; once the controller is built, only for an API that no informer lists; "" for nothing
	synced  []cache.DoneChecker
	syncs   func() error // nil until the controller is built
	ready   func() error // nil if the controller depends on its caches only
	ended   bool
}

// run returns when ctx and everything that the controller started have ended, or with an error if the controller cannot be built.
// Its informers run until informerCtx ends. It syncs after elected is closed.
func (l *life) run(ctx, informerCtx context.Context, elected <-chan struct{}, workers int) error {
	defer l.set(func() { l.ended = true })
	c, err := l.shared.contextFor(l.Name)
	if err != nil {
		return err
	}
	// Once built, the controller adds its name to its log lines itself.
	named := klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), l.Name))
	waiting := func(message string) { l.set(func() { l.waiting = message }) }
	if err := waitForAPIs(named, c.KubeClient.Discovery(), l.Requires, waiting); err != nil {
		return nil // asked to stop before it was built
	}
	built, err := l.build(ctx, informerCtx, c)
	if err != nil {
		return fmt.Errorf("building the controller %s: %w", l.Name, err)
	}
	var rechecking sync.WaitGroup
	rechecking.Go(func() { recheckAPIs(named, c.KubeClient.Discovery(), l.unlisted, waiting) })
	defer rechecking.Wait()
	select {
	case <-elected:
		l.shared.undecodable.lead()
	case <-ctx.Done():
	}
	built.Run(ctx, workers)
	return nil
}

// unlisted returns the required resources that no informer lists. What is known of the others is the last answer to their informers.
func (l *life) unlisted() (resources []schema.GroupVersionResource) {
	for _, resource := range l.Requires {
		if !l.shared.clients.lists(resource) {
			resources = append(resources, resource)
		}
	}
	return resources
}

// build calls the constructor and starts the informers that it asked for.
func (l *life) build(ctx, informerCtx context.Context, c *Context) (controller.Controller, error) {
	l.building.Lock()
	defer l.building.Unlock()
	built, err := l.New(informerCtx, c)
	if err != nil {
		return nil, err
	}
	l.set(func() {
		l.waiting, l.synced, l.syncs = "", built.Synced(), built.CheckSyncs
		if checker, ok := built.(controller.ReadinessChecker); ok {
			l.ready = checker.Ready
		}
	})
	l.shared.startInformers(informerCtx)
	return built, nil
}

// check returns why the controller is not ready. Waiting for leadership is ready: caches are warm, and the wait may be long.
func (l *life) check(*http.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting != "" {
		return errors.New(l.waiting)
	}
	for _, resource := range l.Requires {
		if l.shared.clients.lacks(resource) {
			return errors.New(notInstalled(resource)) // it was there when the controller was built
		}
	}
	var missing []string
	for _, checker := range l.synced {
		if !cache.IsDone(checker) {
			missing = append(missing, checker.Name())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("waiting for caches: %s", strings.Join(missing, ", "))
	}
	if l.ready != nil {
		return l.ready()
	}
	return nil
}

// checkSyncs reports whether a sync of the controller does not end.
func (l *life) checkSyncs(*http.Request) error {
	l.mu.Lock()
	check := l.syncs
	l.mu.Unlock()
	if check == nil {
		return nil
	}
	return check()
}

func (l *life) hasEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

func (l *life) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}
