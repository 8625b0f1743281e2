// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package composite

import (
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
)

const (
	// finalizerOfController keeps a CompositeController until the finalizers that it has put on parents are gone.
	finalizerOfController = "millwright.dev/compositecontroller"

	// fillingInterval is how often it is looked whether the watches are filled.
	fillingInterval = 20 * time.Millisecond
	// servedInterval is how often the API server is asked for what it does not serve, at first and at last. What a
	// CustomResourceDefinition defines is asked for as soon as that changes.
	minServedInterval, maxServedInterval = 100 * time.Millisecond, 15 * time.Second
	// statusInterval is the least time between two status writes that tell of hooks: they may fail in ever new ways.
	statusInterval = time.Second
)

// errReplaced is why calls end when a CompositeController is no longer served as it was.
var errReplaced = errors.New("the CompositeController has changed or gone")

// service is what is done for the CompositeController of a name. Only its syncs use it, one at a time, except where it says otherwise.
type service struct {
	// host is nil while it is not served.
	host *hosted
	// wrong is why it is not, and since when.
	wrong *problem
	since time.Time
	// again tells that the API server may serve other resources than when it was asked. May be used from everywhere.
	again atomic.Bool
	// toldHooks is when its status last told of a hook.
	toldHooks time.Time
}

func (c *Controller) service(name string) *service {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.served[name]
	if s == nil {
		s = &service{}
		c.served[name] = s
	}
	return s
}

// lookAgain makes the next sync of the CompositeController ask the API server which resources it serves.
func (c *Controller) lookAgain(name string) { c.service(name).again.Store(true) }

// syncController serves a CompositeController, or ends to do so, and tells in its status how it does.
func (c *Controller) syncController(ctx context.Context, k key) (time.Duration, error) {
	cc, err := c.lister.Get(k.name)
	if apierrors.IsNotFound(err) {
		c.end(c.service(k.name))
		c.mu.Lock()
		delete(c.served, k.name)
		c.mu.Unlock()
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	s := c.service(k.name)
	if !c.TargetSelector.Matches(labels.Set(cc.Labels)) {
		c.end(s)
		return 0, nil
	}
	if cc.DeletionTimestamp != nil {
		return c.retire(ctx, cc, s)
	}
	cc, err = c.keepFinalizer(ctx, cc, s)
	if err != nil {
		return 0, err
	}
	cc, err = c.recordParents(ctx, cc)
	if err != nil {
		return 0, err
	}
	health, after, err := c.serve(ctx, cc, s)
	if err != nil {
		return 0, err
	}
	if health.wrong == nil && len(formerParents(cc)) > 0 {
		if cc, health.uncleared, err = c.clearFormer(ctx, cc); err != nil {
			return 0, err
		}
		if health.uncleared != nil {
			after = earliest(after, rightsInterval)
		}
	}
	if s.host != nil && health.wrong == nil && !health.synced && time.Since(s.host.since) < statusInterval {
		return after, nil // as a rule it is ready before anybody has read that it is not
	}
	untilTold, err := c.publish(ctx, cc, s, health)
	return earliest(after, untilTold), err
}

// serve makes the CompositeController be served as it is now.
func (c *Controller) serve(ctx context.Context, cc *v1alpha1.CompositeController, s *service) (health, time.Duration, error) {
	builtIn, known := c.builtInFor(cc)
	if !known {
		return health{}, fillingInterval, nil
	}
	again := s.again.Swap(false) || builtIn != nil && s.host != nil
	if again || s.host == nil || s.host.uid != cc.UID || s.host.of.Generation != cc.Generation {
		if err := c.replace(ctx, cc, s, builtIn); err != nil {
			s.again.Store(true)
			return health{}, 0, err
		}
	}
	if s.wrong != nil {
		return health{wrong: s.wrong}, s.untilAsked(), nil
	}
	h := s.host
	if !sameMetadata(h.of, cc) {
		h.of = cc
		if err := h.show(cc); err != nil {
			return health{}, 0, err
		}
	}
	c.observeRivals(cc, h)
	synced, wrong := h.synced(), h.obstacle()
	after := c.untilBuiltIn(cc)
	switch {
	case wrong != nil:
		h.ready.Store(false) // what is not watched must not be decided from
	case !synced:
		after = fillingInterval
	case !h.ready.Load():
		c.begin(ctx, h)
		if slices.Contains(cc.Finalizers, finalizerOfController) && !h.rules.finalize {
			c.Enqueue(controllerKey(h.name)) // maybe no parent has ours any more: see keepFinalizer
		}
	}
	return health{wrong: wrong, synced: synced, overlap: h.overlap.Load().always(), hook: h.failures.current()}, after, nil
}

// replace puts a host in the place of the one there is, if that serves something else, or tells why there is none.
func (c *Controller) replace(ctx context.Context, cc *v1alpha1.CompositeController, s *service, builtIn *problem) error {
	r, wrong, err := c.compile(ctx, cc)
	if err != nil {
		return err
	}
	if wrong == nil {
		wrong = builtIn
	}
	if wrong == nil && s.host != nil && s.host.uid == cc.UID && s.host.of.Generation == cc.Generation && s.host.rules.sameResources(r) {
		return nil
	}
	var next *hosted
	if wrong == nil {
		// The new one watches before the old one ends: nothing is listed again that both watch.
		if next, wrong, err = c.host(cc, r, watchesAll(cc)); err != nil {
			return err
		}
	}
	c.standby.release(cc.UID)
	c.end(s)
	s.setWrong(wrong)
	switch {
	case wrong == nil:
		c.Recorder.Eventf(cc, corev1.EventTypeNormal, eventStarting, "Starting controller: %s", cc.Name)
		s.host = next
		meetController(next.name)
		c.mu.Lock()
		c.hosted[next.uid] = next
		c.mu.Unlock()
	case reasonOf(cc) == wrong.reason:
		// It was told before.
	case wrong.reason == v1alpha1.ReasonStatusSubresourceMissing:
		c.Recorder.Eventf(cc, corev1.EventTypeWarning, eventSyncError, "[%s] Sync error - ignoring, %s", cc.Name, wrong.message)
	default:
		c.Recorder.Eventf(cc, corev1.EventTypeWarning, eventCreateError, "Cannot create new controller: %s", wrong.message)
	}
	return nil
}

// compile asks the API server about what the spec wants, if there is any sense in it.
func (c *Controller) compile(ctx context.Context, cc *v1alpha1.CompositeController) (*rules, *problem, error) {
	if wrong := checkSpec(&cc.Spec); wrong != nil {
		return nil, wrong, nil
	}
	served, err := c.lookUp(ctx, resourcesOf(&cc.Spec))
	if err != nil {
		return nil, nil, err
	}
	r, wrong := compile(cc, served)
	if wrong == nil && c.Namespace != "" && !r.parent.Namespaced {
		return nil, unsupported("spec.parentResource: %s are cluster-scoped, and this engine works in the namespace %s only", r.parent.GroupResource(), c.Namespace), nil
	}
	return r, wrong, nil
}

// begin lets parents be synced, and queues all of them.
func (c *Controller) begin(ctx context.Context, h *hosted) {
	parents := h.parents.List("", nil)
	var keys []key
	for _, parent := range parents {
		if !h.rules.counts(parent) {
			continue
		}
		k := h.parentKey(parent.GetNamespace(), parent.GetName())
		keys = append(keys, k)
		if state, isNew := h.state(nameOf(k), parent.GetUID()); isNew {
			// One that cannot be read is told by its sync.
			if selector, err := h.rules.selectorOf(parent); err == nil {
				state.selector, state.specified = selector, specifiedBy(parent)
				h.orphans.selects(k, selector)
			}
		}
	}
	// Matched with all parents at once, rather than by each parent's first sync.
	for i, handle := range h.children {
		for _, o := range handle.Ownerless("", nil) {
			h.orphans.observed(orphan{i, o.GetNamespace(), o.GetName()}, o)
		}
	}
	h.ready.Store(true)
	c.EnqueueResync(keys...)
	klog.FromContext(ctx).Info("Serving", "compositeController", h.name, "parents", len(keys))
	c.Recorder.Eventf(h.of, corev1.EventTypeNormal, eventStarted, "Started controller: %s", h.name)
}

// end ends to serve what is served.
func (c *Controller) end(s *service) {
	h := s.host
	if h == nil {
		return
	}
	c.Recorder.Eventf(h.of, corev1.EventTypeNormal, eventStopping, "Stopping controller: %s", h.name)
	c.mu.Lock()
	if c.hosted[h.uid] == h {
		delete(c.hosted, h.uid)
	}
	c.mu.Unlock()
	h.close()
	forgetController(h.name)
	s.host = nil
	c.Recorder.Eventf(h.of, corev1.EventTypeNormal, eventStopped, "Stopped controller: %s", h.name)
}

// closeAll gives back what is held when the process ends.
func (c *Controller) closeAll() {
	c.mu.Lock()
	all := c.hosted
	c.hosted = nil
	c.mu.Unlock()
	for _, h := range all {
		h.close()
	}
}

// setWrong keeps since when something is wrong.
func (s *service) setWrong(wrong *problem) {
	if wrong == nil || s.wrong == nil || *wrong != *s.wrong {
		s.since = time.Now()
	}
	s.wrong = wrong
}

// untilAsked is when to ask the API server again: what it does not serve now it may serve soon.
func (s *service) untilAsked() time.Duration {
	switch s.wrong.reason {
	case v1alpha1.ReasonServedByBuiltIn:
		return builtInInterval
	case v1alpha1.ReasonParentNotServed, v1alpha1.ReasonChildNotServed, v1alpha1.ReasonStatusSubresourceMissing:
		s.again.Store(true)
		return min(max(time.Since(s.since), minServedInterval), maxServedInterval)
	default:
		return 0
	}
}

func sameMetadata(a, b *v1alpha1.CompositeController) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Finalizers, b.Finalizers)
}
