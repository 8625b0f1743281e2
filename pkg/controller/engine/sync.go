// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/controller/engine/parent"
)

const (
	// syncedInterval is how often it is checked whether the caches are filled.
	syncedInterval = 20 * time.Millisecond
	// minDiscoveryInterval and maxDiscoveryInterval bound how often the API server is asked for a resource that it does not serve. For what a
	// CustomResourceDefinition defines it is asked as soon as the definition changes.
	minDiscoveryInterval, maxDiscoveryInterval = 100 * time.Millisecond, 15 * time.Second
)

// state is what is known of the declaration of a name. Only its syncs use it, one at a time, except for what is safe for concurrent use.
type state struct {
	// hosted is nil while the declaration is not hosted.
	hosted *hostedController
	// problem is why it is not, and since when.
	problem *parent.Problem
	since   time.Time
	// rediscover reports whether the API server may serve other resources than when it was asked. It is safe for concurrent use.
	rediscover atomic.Bool
	// defined is when a definition of its resources changed last.
	defined lag
	// unansweredUntil is when a group is asked for again that did not answer while the declaration is hosted, zero if all did.
	unansweredUntil time.Time
	// hooksReported is when the status last reported on hooks.
	hooksReported time.Time

	// redefined is when the definition of the declaration itself changed last. Then verify is set: what the API server stores of the status is verified
	// again. It is safe for concurrent use.
	redefined lag
	verify    atomic.Bool
	// recordUnverified and statusUnverified are set until that is done for the record of parents, and for the rest of the status.
	recordUnverified, statusUnverified bool
	// unstored is what the API server has dropped of the status. It is safe for concurrent use.
	unstored atomic.Pointer[unstored]
	// unstoredReported reports whether the user knows that there are no conditions.
	unstoredReported bool
	// unrecorded is the generation of which the API server has not stored the record of parents, nil if it has. notStored reports whether it is not hosted
	// for that reason. It is safe for concurrent use.
	unrecorded *unrecorded
	notStored  atomic.Bool
}

// hostedController is a declaration that is hosted, as it was when that began, except for its metadata.
type hostedController struct {
	parentController
	declaration *parent.Declaration
	spec        *parent.Spec
	since       time.Time
}

// isOf reports whether a declaration is hosted in this generation of its spec.
func (h *hostedController) isOf(d *parent.Declaration) bool {
	return h != nil && h.declaration.UID == d.UID && h.declaration.Generation == d.Generation
}

func (c *Controller) state(name string) *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[name]
	if s == nil {
		s = &state{}
		c.states[name] = s
	}
	return s
}

// syncDeclaration hosts a declaration, or stops it, and writes its status.
func (c *Controller) syncDeclaration(ctx context.Context, name string) (time.Duration, error) {
	d, err := c.Declarations.Get(name)
	if apierrors.IsNotFound(err) {
		c.stop(c.state(name))
		c.mu.Lock()
		delete(c.states, name)
		c.mu.Unlock()
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	s := c.state(name)
	if !c.TargetSelector.Matches(labels.Set(d.Labels)) {
		c.stop(s)
		s.setProblem(nil)
		return 0, nil
	}
	untilVerified := s.verifyStored(time.Now())
	d = s.unstored.Load().over(d)
	if d.DeletionTimestamp != nil {
		return c.syncDeleted(ctx, d, s)
	}
	d, unrecorded, err := c.recordParents(ctx, d, s)
	if err != nil {
		return 0, err
	}
	if unrecorded == nil {
		if d, err = c.syncFinalizer(ctx, d, s); err != nil {
			return 0, err
		}
	}
	health, after, err := c.host(ctx, d, s, unrecorded)
	if err != nil {
		return 0, err
	}
	after = controller.EarliestDelay(after, untilVerified)
	var remaining error
	if health.problem == nil && health.synced && len(formerParents(d)) > 0 {
		if d, remaining, err = c.clearFormerParents(ctx, d, s); err != nil {
			return 0, err
		}
		health.finalizers = uncleared(remaining)
		if isRefused(remaining) {
			after, remaining = controller.EarliestDelay(after, parent.RightsRetryInterval), nil
		}
	}
	if s.hosted != nil && health.problem == nil && !health.synced && time.Since(s.hosted.since) < hooksReportInterval {
		return after, remaining // usually the caches are filled before a user reads such a status
	}
	untilReported, err := c.updateStatus(ctx, d, s, health)
	return controller.EarliestDelay(after, untilReported), errors.Join(remaining, err)
}

// host hosts a declaration with its current spec, and returns its health. unrecorded is why its parents cannot get finalizers, nil if they can.
func (c *Controller) host(ctx context.Context, d *parent.Declaration, s *state, unrecorded *parent.Problem) (health, time.Duration, error) {
	builtIn, known := c.builtInFor(d)
	if !known {
		return health{}, syncedInterval, nil
	}
	blocked := cmp.Or(builtIn, unrecorded)
	now := time.Now()
	untilLag, ask := s.defined.next(now)
	ask = ask || !s.unansweredUntil.IsZero() && !now.Before(s.unansweredUntil)
	if s.rediscover.Swap(false) || ask || blocked != nil && s.hosted != nil || !s.hosted.isOf(d) {
		s.unansweredUntil = time.Time{}
		if err := c.replace(ctx, d, s, blocked); err != nil {
			s.rediscover.Store(true)
			return health{}, 0, err
		}
	}
	if s.problem != nil {
		return health{problem: s.problem}, controller.EarliestDelay(s.untilDiscovery(), untilLag), nil
	}
	h := s.hosted
	if !equalMetadata(h.declaration, d) {
		h.declaration = d
		if err := h.SetMetadata(d); err != nil {
			return health{}, 0, err
		}
	}
	h.SetOverlap(parent.OverlapOf(d, c.selected()))
	observed := h.Health()
	after := controller.EarliestDelay(c.untilBuiltIn(d), untilLag)
	if !s.unansweredUntil.IsZero() {
		after = controller.EarliestDelay(after, time.Until(s.unansweredUntil))
	}
	switch {
	case observed.Watch != nil:
		h.Pause() // nothing must be decided from caches that are not updated
	case !observed.Synced && observed.Stalled != nil:
		// The end of the stall is reported.
	case !observed.Synced:
		after = syncedInterval // which is earlier than any other
	case !h.Started():
		c.start(ctx, h)
		if hasFinalizer(d) && !h.spec.Finalizes() {
			c.Enqueue(c.declarationKey(d.Name)) // perhaps no parent has the finalizer any more: see syncFinalizer
		}
	}
	problem := cmp.Or(observed.Watch, observed.Stalled)
	return health{problem: problem, synced: observed.Synced, overlap: observed.Overlap, failures: observed.Failures}, after, nil
}

// replace hosts a declaration instead of its former version, unless both are the same, or records why it cannot be hosted: blocked, if it is not nil, or
// what is wrong with its spec.
func (c *Controller) replace(ctx context.Context, d *parent.Declaration, s *state, blocked *parent.Problem) error {
	spec, problem, err := c.compile(ctx, d)
	unanswered, isUnanswered := errors.AsType[*parent.DiscoveryError](err)
	switch {
	case isUnanswered && blocked == nil && s.hosted.isOf(d):
		s.unansweredUntil = time.Now().Add(maxDiscoveryInterval) // what it cannot watch is reported by its health
		return nil
	case isUnanswered:
		problem = cmp.Or(blocked, unanswered.Problem())
	case err != nil:
		return err
	case problem == nil:
		problem = blocked
	}
	if problem == nil && s.hosted.isOf(d) && s.hosted.spec.SameResources(spec) {
		return nil
	}
	var next parentController
	if problem == nil {
		// The new one begins its watches before the old one ends its own, so that what both watch is not listed again.
		if next, problem, err = c.newParentControllerFor(d, spec); err != nil {
			return err
		}
	}
	c.standby.release(d.UID)
	c.stop(s)
	s.setProblem(problem)
	switch {
	case problem == nil:
		c.Recorder.Eventf(d.Object, corev1.EventTypeNormal, eventStarting, "Starting controller: %s", d.Name)
		s.hosted = &hostedController{parentController: next, declaration: d, spec: spec, since: time.Now()}
		parent.InitMetrics(d.Kind, d.Name)
		c.mu.Lock()
		c.running[d.UID] = next
		c.mu.Unlock()
	case readyReasonOf(d) == problem.Reason:
		// It was reported before.
	case problem.Reason == v1alpha1.ReasonStatusSubresourceMissing:
		c.Recorder.Eventf(d.Object, corev1.EventTypeWarning, eventSyncError, "[%s] Sync error - ignoring, %s", d.Name, problem.Message)
	default:
		c.Recorder.Eventf(d.Object, corev1.EventTypeWarning, eventCreateError, "Cannot create new controller: %s", problem.Message)
	}
	return nil
}

func (c *Controller) newParentControllerFor(d *parent.Declaration, spec *parent.Spec) (parentController, *parent.Problem, error) {
	return c.newParentController(parent.Config{
		Declaration:     d,
		Spec:            spec,
		WatchUnselected: watchesUnselected(d),
		Namespace:       c.Namespace,
		Objects:         c.Objects,
		Writer:          c.writer,
		FieldManager:    c.FieldManager,
		Hooks:           c.Hooks,
		Credentials:     c.credentials,
		Recorder:        c.Recorder,
		Queue:           c.Loop,
		Discover:        c.discover,
		Changed:         func() { c.Enqueue(c.declarationKey(d.Name)) },
	})
}

// compile compiles a spec, after discovery if it is valid.
func (c *Controller) compile(ctx context.Context, d *parent.Declaration) (*parent.Spec, *parent.Problem, error) {
	if problem := d.CheckSpec(); problem != nil {
		return nil, problem, nil
	}
	served, err := c.discover(ctx, resourcesOf(d))
	if err != nil {
		return nil, nil, err
	}
	compiled := *d
	compiled.ApplyStrategy = cmp.Or(d.ApplyStrategy, c.ApplyStrategy)
	spec, problem := parent.Compile(&compiled, served)
	if problem == nil {
		problem = spec.CheckNamespace(c.Namespace)
	}
	return spec, problem, nil
}

// start lets the parents of a declaration be synced.
func (c *Controller) start(ctx context.Context, h *hostedController) {
	d := h.declaration
	n := h.Start()
	klog.FromContext(ctx).Info("Serving", "kind", d.Kind, "name", d.Name, "parents", n)
	c.Recorder.Eventf(d.Object, corev1.EventTypeNormal, eventStarted, "Started controller: %s", d.Name)
}

// stop stops what is hosted, if anything is.
func (c *Controller) stop(s *state) {
	h := s.hosted
	if h == nil {
		return
	}
	d := h.declaration
	c.Recorder.Eventf(d.Object, corev1.EventTypeNormal, eventStopping, "Stopping controller: %s", d.Name)
	c.mu.Lock()
	if c.running[d.UID] == h.parentController {
		delete(c.running, d.UID)
	}
	c.mu.Unlock()
	h.Stop()
	parent.DeleteMetrics(d.Kind, d.Name)
	s.hosted = nil
	c.Recorder.Eventf(d.Object, corev1.EventTypeNormal, eventStopped, "Stopped controller: %s", d.Name)
}

// stopAll stops all that is hosted when the process ends.
func (c *Controller) stopAll() {
	c.mu.Lock()
	all := c.running
	c.running = nil
	c.mu.Unlock()
	for _, parents := range all {
		parents.Stop()
	}
}

// setProblem records a problem, nil for none, and since when it exists.
func (s *state) setProblem(problem *parent.Problem) {
	if problem == nil || s.problem == nil || *problem != *s.problem {
		s.since = time.Now()
	}
	s.problem = problem
	s.notStored.Store(problem != nil && problem.Reason == v1alpha1.ReasonStatusNotStored)
}

// untilDiscovery returns when to ask the API server again for what it does not serve now, 0 for never.
func (s *state) untilDiscovery() time.Duration {
	switch s.problem.Reason {
	case v1alpha1.ReasonServedByBuiltIn:
		return builtInInterval
	case v1alpha1.ReasonParentNotServed, v1alpha1.ReasonChildNotServed, v1alpha1.ReasonTargetNotServed, v1alpha1.ReasonAttachmentNotServed,
		v1alpha1.ReasonStatusSubresourceMissing, v1alpha1.ReasonGroupUnavailable:
		s.rediscover.Store(true)
		return min(max(time.Since(s.since), minDiscoveryInterval), maxDiscoveryInterval)
	default:
		return 0
	}
}

func equalMetadata(a, b *parent.Declaration) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Finalizers, b.Finalizers)
}
