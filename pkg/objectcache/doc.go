// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectcache holds objects of any kind in little memory, with one watch per resource for all its users.
//
// A [RawObject] is an object as compact JSON, with a small header of what controllers decide by; nothing is decoded to a tree. A [Cache]
// lists and watches, through client-go's Reflector, what its users acquire:
//
//	objects, err := objectcache.New(ctx, config, objectcache.Options{})
//	children, err := objects.Acquire(objectcache.Request{
//		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
//		OnChange: func(old, new *objectcache.RawObject) { ... queue a key ... },
//	})
//	synced := cache.WaitFor(ctx, "children", children.Synced()) // k8s.io/client-go/tools/cache
//	mine := children.OwnedBy(parent.GetUID(), namespace)
//	children.Release() // the last one to go ends the watch
//
// Each user sees what he requested. The watch brings what all of them need: it is narrowed to a namespace, a name or a selector on which
// they agree, and narrowed further half a minute after they agree on less. To widen or narrow, a second watch is started, which takes
// over when it has its first state (feed.go, state.go): no user misses a change meanwhile, sees one undone, or is notified of an object
// twice. If the watch that all need together is refused, those who were served stay so, and the others are notified of the reason.
//
// A resource that is not served, or not allowed, is tried again, first within half a second and at last every 15 to 30; its users are notified
// what is wrong ([Handle.Problem]) and keep what they have seen. [Cache.Retry] ends the wait.
//
// How an event goes: HTTP, client-go's frames, decode.go and parse.go (bytes to RawObject), the Reflector, source.go (its store), state.go
// (the feed takes it in), queue.go (one per user), handle.go (OnChange).
//
// Memory is measured by "go test -run '^$' -bench Memory -benchtime 1x ./pkg/testing/integration/objectcache".
//
// A [SelectorIndex] finds the users' own keys whose selectors match an ownerless object.
package objectcache
