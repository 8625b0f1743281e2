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
	handler := cache.TypedResourceEventHandlerFuncs[T]{
		AddFunc: func(obj T) {
			observed(obj)
			loop.Enqueue(source.Keys(obj)...)
		},
		UpdateFunc: func(oldObj, newObj T) {
			observed(newObj)
			// A key that is added twice is synced twice, if a worker is free.
			left, keys := source.Keys(oldObj), source.Keys(newObj)
			for _, key := range left {
				if !slices.Contains(keys, key) {
					loop.Enqueue(key)
				}
			}
			loop.Enqueue(keys...)
		},
		DeleteFunc: func(deleted cache.DeletedObject[T]) {
			var none T
			if deleted.OptionalObj == none {
				return
			}
			if source.Deleted != nil {
				source.Deleted(deleted.OptionalObj, deleted.FinalStateUnknown == nil)
			}
			loop.Enqueue(source.Keys(deleted.OptionalObj)...)
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
