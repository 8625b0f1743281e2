// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Source is what a controller watches, and which keys it syncs after an event.
type Source[T cache.Object, K comparable] struct {
	Informer cache.TypedSharedIndexInformer[T]
	// Keys returns the keys of an object. An update queues the keys of the old state and of the new one, each once, so that a key that an
	// object leaves is synced too.
	Keys func(obj T) []K
	// Changed is called instead of Keys, where most updates concern fewer keys than both states have. It returns the keys to sync, each once.
	// before is the zero value for an object that is added, after for one that is deleted. It is not called concurrently with itself.
	Changed func(before, after T) []K
	// Observed is called with every state that an object is added or changed to, before its keys are queued. Optional.
	Observed func(obj T)
	// Deleted is called with the last known state of a deleted object, before its keys are queued. final is false for a tombstone, which
	// a new list produces: then the state is an older one. Optional.
	Deleted func(obj T, final bool)
}

// Watch makes the loop sync the keys of every object of the source that is added, changed or deleted. The loop waits
// for the source's initial events before it starts.
//
// This file is the only one that uses the typed handlers of client-go.
func Watch[T cache.Object, K comparable](ctx context.Context, loop *Loop[K], source Source[T, K]) error {
	observed := func(obj T) {
		if source.Observed != nil {
			source.Observed(obj)
		}
	}
	changed := source.Changed
	if changed == nil {
		changed = func(before, after T) []K { return keysOf(source.Keys, before, after) }
	}
	var none T
	handler := cache.TypedResourceEventHandlerFuncs[T]{
		AddFunc: func(obj T) {
			observed(obj)
			loop.Enqueue(changed(none, obj)...)
		},
		UpdateFunc: func(oldObj, newObj T) {
			observed(newObj)
			loop.Enqueue(changed(oldObj, newObj)...)
		},
		DeleteFunc: func(deleted cache.DeletedObject[T]) {
			if deleted.OptionalObj == none {
				return
			}
			if source.Deleted != nil {
				source.Deleted(deleted.OptionalObj, deleted.FinalStateUnknown == nil)
			}
			loop.Enqueue(changed(deleted.OptionalObj, none)...)
		},
	}
	logger := klog.LoggerWithName(klog.FromContext(ctx), loop.name)
	registration, err := source.Informer.AddTypedEventHandler(handler, cache.HandlerOptions{Logger: &logger})
	if err != nil {
		return fmt.Errorf("%s: registering for events: %w", loop.name, err)
	}
	loop.synced = append(loop.synced, registration.HasSyncedChecker())
	return nil
}

// keysOf returns the keys of both states, each once: a key that is added twice is synced twice, if a worker is free. Those of after are last.
func keysOf[T cache.Object, K comparable](keys func(T) []K, before, after T) (all []K) {
	var none T
	switch {
	case before == none:
		return keys(after)
	case after == none:
		return keys(before)
	}
	current := keys(after)
	for _, key := range keys(before) {
		if !slices.Contains(current, key) {
			all = append(all, key)
		}
	}
	return append(all, current...)
}
