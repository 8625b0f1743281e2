// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package perturbation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"millwright.dev/pkg/testing/patience"
)

// pollInterval is how often Until is called: short enough for short runs, and long enough that many concurrent runs do not slow each other
// down.
const pollInterval = 50 * time.Millisecond

// run is one run of a scenario, disturbed by at most one pattern at one point.
type run struct {
	scenario  *Scenario
	user      *User
	transport http.RoundTripper // to the API server
	pattern   Pattern
	point     Point // zero: none
	counter   counter
	history   *history
	nextPast  *past // for the instance after a crash

	mu       sync.Mutex
	given    bool // during an act whose writes are no points
	points   []Point
	first    []Point // the first one of each act
	acted    bool    // an act has begun, and no point is its first one yet
	writes   []Write
	watches  []string
	struck   bool
	holds    int
	release  func(context.Context) error
	flicker  func() // restores the watches
	instance *instance
	started  int
}

// result is the outcome of a run.
type result struct {
	points  []Point
	first   []Point // the first one of each act
	watched []string
	struck  bool
	state   string
	history string
}

// execute runs the scenario. With an error it returns the result up to that point.
func (r *run) execute(ctx context.Context) (res result, err error) {
	defer func() {
		res.points, res.first, res.struck, res.history = r.points, r.first, r.struck, r.history.String()
	}()

	defer func() { err = errors.Join(err, r.user.tidyUp(ctx, r.scenario.Resources)) }()
	recorder, err := startRecorder(ctx, r.user, r.scenario.Resources)
	if err != nil {
		return res, err
	}
	defer recorder.stop()
	r.startInstance(ctx)
	defer func() { r.stopInstance() }()

	acts := slices.Concat(r.scenario.Given, r.scenario.Acts)
	for i, act := range acts {
		r.beginAct(i < len(r.scenario.Given))
		r.history.add("user: %s", act.Name)
		if err := r.do(ctx, act); err != nil {
			return res, fmt.Errorf("act %q: %w", act.Name, err)
		}
		r.history.wrote() // restarts the quiet time
		if err := r.converge(ctx, act); err != nil {
			return res, err
		}
		if r.pattern.untilTheEnd && i < len(acts)-1 {
			continue
		}
		release := r.takeRelease()
		if release == nil {
			continue
		}
		if err := release(ctx); err != nil {
			return res, err
		}
		if err := r.converge(ctx, act); err != nil {
			return res, fmt.Errorf("after the late write: %w", err)
		}
	}
	changes := recorder.stop()
	res.watched = r.watchesOf(changes)
	for _, invariant := range r.scenario.Invariants {
		if err := invariant.check(changes, r.allWrites()); err != nil {
			return res, fmt.Errorf("invariant %q: %w", invariant.Name, err)
		}
	}
	res.state, err = r.user.state(ctx, r.scenario)
	return res, err
}

// do does the act. The watch of a lagging resource continues a while after it.
func (r *run) do(ctx context.Context, act Act) error {
	if act.Lagging != "" {
		proxy := r.instance.proxy
		proxy.gateOf(act.Lagging).shut()
		defer proxy.freeze(act.Lagging)
	}
	return act.Do(ctx, r.user)
}

// converge waits until the controller has done its part of the act and the quiet time has passed. It restarts a killed controller.
func (r *run) converge(runCtx context.Context, act Act) error {
	last := errors.New("not yet")
	err := wait.PollUntilContextTimeout(runCtx, pollInterval, patience.Limit, true, func(ctx context.Context) (bool, error) {
		if err := r.revive(runCtx); err != nil {
			return false, err
		}
		if err := r.doFlicker(ctx); err != nil {
			return false, err
		}
		asked := time.Now()
		if r.holding() || r.history.quietFor() < r.scenario.quiet() {
			return false, nil
		}
		reached, err := act.Until(ctx, r.user)
		if err != nil {
			last = err
		}
		// A write during Until may have undone what Until has read.
		return reached && err == nil && !r.holding() && r.history.quietFor() > time.Since(asked), nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("act %q is not done within %s: %w", act.Name, patience.Limit, last)
	}
	return err
}

// beginAct is called before each act. The writes of a given act are no points: another scenario disturbs them.
func (r *run) beginAct(given bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given, r.acted = given, !given
}

// reached records a point that the controller has reached.
func (r *run) reached(point Point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.given {
		r.points = append(r.points, point)
		if r.acted {
			r.first, r.acted = append(r.first, point), false
		}
	}
}

// sent records a write that was sent to the API server.
func (r *run) sent(write Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, write)
}

func (r *run) allWrites() []Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.writes)
}

// watched records a resource that the controller watches.
func (r *run) watched(resource string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.watches, resource) {
		r.watches = append(r.watches, resource)
	}
}

// watchesOf returns the watched resources that have changes.
func (r *run) watchesOf(changes []Change) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.watches), func(resource string) bool {
		return !slices.ContainsFunc(changes, func(change Change) bool { return change.Resource.Resource == resource })
	})
}

// strikes reports whether the pattern strikes at this point. It returns true once.
func (r *run) strikes(point Point) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.struck || r.pattern.strike == nil || point != r.point {
		return false
	}
	r.struck = true
	return true
}

// hold keeps the run from converging until letGo.
func (r *run) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds++
}

func (r *run) letGo() {
	r.history.wrote() // restarts the quiet time
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds--
}

// holdFor keeps the run from converging for a while, then calls then.
func (r *run) holdFor(d time.Duration, then func()) {
	r.hold()
	time.AfterFunc(d, func() {
		then()
		r.letGo()
	})
}

func (r *run) holding() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds > 0
}

// releaseLater stores a late write until the other instance has done the work.
func (r *run) releaseLater(release func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release = release
}

func (r *run) takeRelease() func(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	release := r.release
	r.release = nil
	return release
}

// flickerNow requests the scenario's flicker while the watches are cut.
func (r *run) flickerNow(restore func()) {
	r.hold()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flicker = restore
}

func (r *run) doFlicker(ctx context.Context) error {
	r.mu.Lock()
	restore := r.flicker
	r.flicker = nil
	r.mu.Unlock()
	if restore == nil {
		return nil
	}
	r.history.add("user: flicker, unobserved")
	if err := r.scenario.Flicker(ctx, r.user); err != nil {
		return fmt.Errorf("flicker: %w", err)
	}
	restore()
	r.letGo()
	return nil
}

// currentVersion returns the resourceVersion of a list of the resource.
func (r *run) currentVersion(ctx context.Context, name string) (string, error) {
	resource, err := r.scenario.resource(name)
	if err != nil {
		return "", err
	}
	list, err := r.user.List(ctx, resource)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", name, err)
	}
	return list.GetResourceVersion(), nil
}
