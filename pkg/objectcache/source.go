// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// How long a source waits before it lists again: from retryMin, doubled each time, to retryMax; from retryMin again when it has lived
// for retryReset. Each wait is drawn from the upper half, so that all sources of a process do not come back at the same instant.
const (
	retryMin   = 500 * time.Millisecond
	retryMax   = 30 * time.Second
	retryReset = 2 * time.Minute
)

// source keeps one list and watch going, by client-go's Reflector, and hands what comes to its feed: it is the Reflector's store.
type source struct {
	feed  *feed
	scope scope
	stop  context.CancelFunc
	wake  chan struct{} // ends a wait

	// These are guarded by the feed's mu.
	synced  bool  // has had its first state
	problem error // nil while it can list and watch
	initial bool  // watches, and waits for the initial events
	stalled error // nil unless no list or watch succeeds for long
	reload
}

// retry ends the wait after a list or watch that has failed.
func (s *source) retry() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sourceKey is the key of a source in the context of its requests.
type sourceKey struct{}

// SourceOf identifies the list and watch of a Cache that a request with a context is part of. It returns nil for a context that is not of a Cache.
func SourceOf(ctx context.Context) any { return ctx.Value(sourceKey{}) }

// ReportStalled reports why no list or watch has succeeded for long by the requests with a context, or with nil that one has. It does nothing for a context
// that is not of a Cache. A transport that repeats requests by itself calls it: it alone knows why they fail.
func ReportStalled(ctx context.Context, reason error) {
	if s, ok := SourceOf(ctx).(*source); ok {
		if reason != nil {
			reason = &StalledError{s.feed.key.resource, reason}
		}
		s.feed.stall(s, reason)
	}
}

// StalledError is the problem of a resource whose changes are not seen because no list or watch succeeds, although the resource is served and allowed.
type StalledError struct {
	Resource schema.GroupVersionResource
	err      error
}

func (e *StalledError) Error() string {
	return fmt.Sprintf("no list or watch of %s succeeds, so that changes are not seen: %v", describe(e.Resource), e.err)
}

// Unwrap returns the last error.
func (e *StalledError) Unwrap() error { return e.err }

// trouble returns the problem that users of the source are shown. A right or a definition that is missing is a reason by itself.
func (s *source) trouble() error {
	if s.stalled != nil && !IsRefused(s.problem) {
		return s.stalled
	}
	return s.problem
}

// IsRefused reports whether a resource cannot be listed or watched because it is not served or not allowed, whatever is tried again.
func IsRefused(problem error) bool {
	return apierrors.IsForbidden(problem) || apierrors.IsNotFound(problem) || apierrors.IsMethodNotSupported(problem)
}

// start begins a source. The feed's mu is held.
func (f *feed) start(wanted scope) *source {
	ctx, stop := context.WithCancel(f.cache.ctx)
	s := &source{feed: f, scope: wanted, stop: stop, wake: make(chan struct{}, 1)}
	f.cache.start(func() {
		defer stop()
		s.run(ctx)
	})
	return s
}

// run lists and watches until the context ends.
func (s *source) run(ctx context.Context) {
	listerWatcher, err := s.feed.cache.open(s.feed.key.resource, s.scope, s.known)
	if err != nil {
		s.feed.report(s, fmt.Errorf("making a client for %s: %w", describe(s.feed.key.resource), err))
		return
	}
	name := describe(s.feed.key.resource)
	logger := klog.LoggerWithName(klog.FromContext(ctx), name)
	ctx = context.WithValue(klog.NewContext(ctx, logger), sourceKey{}, s)
	reflector := cache.NewReflectorWithOptions(&reportingListWatch{ListerWatcher: listerWatcher, source: s},
		&RawObject{}, s, cache.ReflectorOptions{
			Logger:          &logger,
			Name:            "objectcache",
			TypeDescription: name,
			Backoff:         &wait.Backoff{Duration: retryMin, Factor: 2, Jitter: 1, Steps: 6, Cap: retryMax},
		})
	delay := retryMin
	for ctx.Err() == nil {
		began := time.Now()
		// What went wrong has been reported where it happened: here would be too late for some, and too early for a watch.
		if err := reflector.ListAndWatchWithContext(ctx); err != nil {
			logger.V(2).Info("The watch has ended and will be started again", "err", err)
		}
		if time.Since(began) >= retryReset {
			delay = retryMin
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait.Jitter(delay/2, 1)):
			delay = min(2*delay, retryMax)
		case <-s.wake:
			delay = retryMin
		}
	}
}

// known finds an object that the feed has already.
func (s *source) known(namespace, name []byte) *RawObject {
	s.feed.mu.RLock()
	defer s.feed.mu.RUnlock()
	return s.feed.objects.known(namespace, name)
}

// Add implements cache.ReflectorStore.
func (s *source) Add(obj any) error {
	s.feed.put(s, obj.(*RawObject))
	return nil
}

// Update implements cache.ReflectorStore.
func (s *source) Update(obj any) error {
	s.feed.put(s, obj.(*RawObject))
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *source) Delete(obj any) error {
	s.feed.remove(s, obj.(*RawObject))
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *source) Replace(list []any, resourceVersion string) error {
	items := make([]*RawObject, len(list))
	for i, item := range list {
		o, ok := item.(*RawObject)
		if !ok {
			return fmt.Errorf("listing %s: an item is a %T", describe(s.feed.key.resource), item)
		}
		items[i] = o
	}
	s.feed.replace(s, items, resourceVersion)
	return nil
}

// Resync implements cache.ReflectorStore. Nothing is reported again without a reason.
func (s *source) Resync() error { return nil }

// UpdateResourceVersion implements cache.ResourceVersionUpdater: the Reflector calls it after each event and bookmark.
func (s *source) UpdateResourceVersion(resourceVersion string) { s.feed.reach(s, resourceVersion) }

// describe names a resource as kubectl does: deployments.v1.apps.
func describe(resource schema.GroupVersionResource) string {
	if resource.Group == "" {
		return resource.Resource + "." + resource.Version
	}
	return resource.Resource + "." + resource.Version + "." + resource.Group
}

// explain returns what a failed list or watch of a scope means and what can be done about it. The error that it had is within.
func explain(resource schema.GroupVersionResource, within *scope, verb string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return &ForbiddenError{resource, within.namespace, within.name, err}
	case IsRefused(err):
		return fmt.Errorf("waiting for the API server to serve %s: %w", describe(resource), err)
	default:
		return fmt.Errorf("trying to %s %s: %w", verb, describe(resource), err)
	}
}

// ForbiddenError is the problem of a resource that the account may not list or watch. Its text is the same for both, because they are tried in turn.
type ForbiddenError struct {
	resource schema.GroupVersionResource
	// Namespace is the one in which a Role is enough; "" for all, where only a ClusterRole is.
	Namespace string
	name      string
	err       error
}

// Error returns the rule that is missing, and what has to have it.
func (e *ForbiddenError) Error() string {
	role := "a ClusterRole of this account"
	if e.Namespace != "" {
		role = "a Role of this account in the namespace " + e.Namespace
	}
	names := ""
	if e.name != "" {
		names = fmt.Sprintf(", resourceNames: [%q]", e.name)
	}
	return fmt.Sprintf("no right to list and watch %s: add to %s the rule {apiGroups: [%q], resources: [%q]%s, verbs: [\"list\", \"watch\"]}",
		describe(e.resource), role, e.resource.Group, e.resource.Resource, names)
}

// Unwrap returns the answer of the API server.
func (e *ForbiddenError) Unwrap() error { return e.err }
